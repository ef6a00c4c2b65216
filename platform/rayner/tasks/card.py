"""The README.md of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayner.config import BaseRecipe


def model_card(recipe: BaseRecipe, metrics: Mapping[str, Any]) -> str:
    """What the checkpoint is, what it was trained on, how well it does, and how to use it, as Markdown."""
    task = recipe.model_dump()["task"]
    scores = {k: v for k, v in metrics.items() if isinstance(v, float) and 0 <= v <= 1}
    rows = [f"| {name} | {100 * value:.1f} |" for name, value in scores.items()]
    types = [f"- **{t.name}**" + (f": {t.guidelines[0]}" if t.guidelines else "") for t in recipe.types]
    lines = [
        f"# A {task} made with rayner",
        "",
        f"Encoder: `{recipe.encoder}`. Trained on {_listed(recipe.corpus.train)}.",
        "Every setting is in `recipe.yaml`.",
        "",
        "## Types",
        "",
        *types,
        "",
        f"## Scores on {_listed(recipe.corpus.dev)}",
        "",
        *(["| metric | % |", "| --- | ---: |", *rows] if rows else ["None were computed."]),
        "",
        "These texts chose this checkpoint among those of its run: expect a little less on others.",
        "",
        "## Use",
        "",
        "```",
        "rayner annotate THIS_FOLDER texts.jsonl --out annotated",
        "```",
        "",
        "```python",
        "import rayner",
        "",
        'documents = rayner.load("THIS_FOLDER").predict(["Some text."])',
        "```",
        "",
    ]
    return "\n".join(lines)


def _listed(paths: tuple[str, ...]) -> str:
    return ", ".join(f"`{path}`" for path in paths) or "nothing"
