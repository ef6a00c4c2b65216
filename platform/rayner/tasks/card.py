"""The README.md of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rayner.config import BaseRecipe, DocumentRecipe, StandardizerRecipe

_HERE = "THIS_FOLDER"


class _Words(NamedTuple):
    """What a card says of one kind of task."""

    train: Sequence[str]
    dev: Sequence[str]
    about: Sequence[str]
    commands: Sequence[str]
    python: Sequence[str]


def model_card(recipe: BaseRecipe, metrics: Mapping[str, Any]) -> str:
    """What the checkpoint is, what it was trained on, how well it does, and how to use it, as Markdown."""
    task = recipe.model_dump()["task"]
    scores = {k: v for k, v in metrics.items() if isinstance(v, float) and 0 <= v <= 1}
    rows = [f"| {name} | {100 * value:.1f} |" for name, value in scores.items()]
    words = _words(recipe)
    lines = [
        f"# A {task} made with rayner",
        "",
        f"Encoder: `{recipe.encoder}`. Trained on {_listed(words.train)}.",
        "Every setting is in `recipe.yaml`.",
        "",
        *words.about,
        "",
        f"## Scores on {_listed(words.dev)}",
        "",
        *(["| metric | % |", "| --- | ---: |", *rows] if rows else ["None were computed."]),
        "",
        "These texts chose this checkpoint among those of its run: expect a little less on others.",
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


def commands_for(recipe: BaseRecipe, checkpoint: str) -> list[str]:
    """What to do with a checkpoint that the recipe made."""
    return [command.replace(_HERE, checkpoint) for command in _words(recipe).commands]


def _words(recipe: BaseRecipe) -> _Words:
    match recipe:
        case DocumentRecipe():
            return _of_documents(recipe)
        case StandardizerRecipe():
            return _of_names(recipe)
    raise TypeError(f"no card for {type(recipe).__name__}")


def _of_documents(recipe: DocumentRecipe) -> _Words:
    types = [f"- **{t.name}**" + (f": {t.guidelines[0]}" if t.guidelines else "") for t in recipe.types]
    return _Words(
        train=recipe.corpus.train,
        dev=recipe.corpus.dev,
        about=["## Types", "", *types],
        commands=[
            f"rayner evaluate {_HERE} CORPUS",
            f"rayner annotate {_HERE} texts.jsonl --out annotated",
        ],
        python=[f'documents = rayner.load("{_HERE}").predict(["Some text."])'],
    )


def _of_names(recipe: StandardizerRecipe) -> _Words:
    mentions = recipe.mentions
    held_out = f"{mentions.dev_fraction:.0%} of the distinct strings of the mentions"
    return _Words(
        train=(*recipe.knowledge_base.paths, *mentions.train),
        dev=mentions.dev or ((held_out,) if mentions.dev_fraction else ()),
        about=[
            "## Entities",
            "",
            "It places names; the entities come with an index, which can be of another knowledge base.",
            "`standardizer.json` holds the weight of the lexical side and the thresholds for NIL.",
        ],
        commands=[
            _build_command(recipe),
            f"rayner standardize {_HERE} mentions.jsonl --index index",
        ],
        python=[f'answers = rayner.load_standardizer("{_HERE}", "index").predict(["Some name"])'],
    )


def _build_command(recipe: StandardizerRecipe) -> str:
    """What builds the index of the recipe's knowledge base, with all mentions that it names as aliases."""
    files = " ".join(recipe.knowledge_base.paths)
    mentions = recipe.mentions.train if recipe.mentions.are_aliases else ()
    aliases = "".join(f" --mentions {path}" for path in mentions)
    return f"rayner index build {_HERE} {files}{aliases} --out index"


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths) or "nothing"
