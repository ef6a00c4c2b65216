"""The README.md of a checkpoint."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rayner.config import BaseRecipe
from rayner.metrics.shown import is_fraction, shown_score
from rayner.tasks.kinds.base import FOLDER, Card


def model_card(recipe: BaseRecipe, words: Card, metrics: Mapping[str, Any]) -> str:
    """What the checkpoint is, what it was trained on, how well it does, and how to use it, as Markdown."""
    scores = {k: v for k, v in metrics.items() if isinstance(v, float) and 0 <= v <= 1}
    rows = [
        f"| {name}{' (%)' if is_fraction(name) else ''} | {shown_score(name, value)} |"
        for name, value in scores.items()
    ]
    judged = "These texts chose this checkpoint among those of its run: expect a little less on others."
    unjudged = "There was no development set: this is the model of the last step."
    lines = [
        f"# A {recipe.task} made with rayner",
        "",
        f"Encoder: `{recipe.encoder}`. Trained on {_listed(words.train)}.",
        "Every setting is in `recipe.yaml`.",
        "",
        *words.about,
        "",
        "## Scores" + (f" on {_listed(words.dev)}" if words.dev else ""),
        "",
        *(["| metric | value |", "| --- | ---: |", *rows, "", judged] if rows else [unjudged]),
        "",
        "## Use",
        "",
        "```",
        *words.commands,
        "```",
        "",
        "```python",
        "import rayner",
        "",
        *words.python,
        "```",
        "",
    ]
    return "\n".join(lines)


def commands_for(words: Card, checkpoint: str) -> list[str]:
    """What to do with a checkpoint."""
    return [command.replace(FOLDER, shlex.quote(checkpoint)) for command in words.commands]


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths) or "nothing"
