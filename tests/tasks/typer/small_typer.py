"""A small typer and documents that it learns within a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayner.config import TyperRecipe
from rayner.data.fine_types import gold_types
from rayner.data.schema import Document, Mention
from rayner.models.encoder import load_tokenizer
from rayner.tasks.registry import parse_recipe
from rayner.tasks.typer.task import TyperTask

TOKENIZER = load_tokenizer("random:32x2")
ROWS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("Ada Lovelace wrote to the Society.", "Ada Lovelace", ("/person", "/person/author")),
    ("In Paris, nobody slept.", "Paris", ("/place", "/place/city")),
    ("They swam in the Rhine at noon.", "the Rhine", ("/place",)),
    ("A letter reached Marie Curie late.", "Marie Curie", ("/person", "/person/chemist")),
)


def typed(text: str, mention: str, names: Sequence[str], **fields: Any) -> Document:
    start = text.index(mention)
    found = Mention(start, start + len(mention), "mention", types=tuple((name, 1.0) for name in names))
    return Document(text[:12], text, (found,), **fields)


DOCUMENTS = [typed(*row) for row in ROWS]


def typer(vocabulary: Mapping[str, int] | None = None, **changes: Any) -> TyperTask:
    """A small typer; `changes` are parts of the recipe."""
    values = {
        "task": "typer",
        "encoder": "random:32x2",
        "corpus": {"train": ["nowhere"], "dev": ["nowhere"]},
        "windows": {"length": 40, "overlap": 10},
        **changes,
        "model": {"dropout": 0, **changes.get("model", {})},
    }
    recipe = parse_recipe(values, "test")
    assert isinstance(recipe, TyperRecipe)
    task = TyperTask(recipe, TOKENIZER)
    names = sorted({name for document in DOCUMENTS for name in gold_types(document.mentions[0])})
    task.vocabulary = vocabulary or dict.fromkeys(names, 1)
    return task


def types_of(documents: Sequence[Document]) -> list[set[str]]:
    return [{name for name, _ in m.types} for d in documents for m in d.mentions]
