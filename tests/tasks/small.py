"""Tasks small enough to train within a second, and documents written with their mentions in brackets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import torch
from torch import nn

from rayner.config import RecognizerRecipe, TaggerRecipe
from rayner.data.schema import Document, Mention
from rayner.models.encoder import Tokenizer, load_tokenizer
from rayner.tasks.base import Progress
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.task import RecognizerTask
from rayner.tasks.registry import parse_recipe
from rayner.tasks.tagger.task import TaggerTask

T = TypeVar("T", bound=nn.Module)

TYPES: Sequence[Mapping[str, Any]] = (
    {
        "name": "PER",
        "description": "names of people",
        "keyword": "person",
        "prototypes": ["Yesterday [[Grace Hopper]] slept.", "I saw [[Alan]]."],
    },
    {
        "name": "ORG",
        "description": "companies, offices and clubs",
        "keyword": "organization",
        "prototypes": ["[[Acme]] pays well."],
    },
    {
        "name": "LOC",
        "description": "cities, rivers and seas",
        "keyword": "place",
        "prototypes": ["They swam in [[the Rhine]]."],
    },
)
BASE: Mapping[str, Any] = {
    "encoder": "random:32x2",
    "corpus": {"train": ["nowhere"], "dev": ["nowhere"]},
    "types": TYPES,
    "windows": {"length": 40, "overlap": 10},
}
MODEL: Mapping[str, Any] = {
    "max_span_width": 8,
    "projection_size": 32,
    "width_embedding_size": 16,
    "dropout": 0,
}

_MARK = re.compile(r"\[(\w+):|\]")

DOCUMENTS: Sequence[str] = (
    "[PER:Ada Lovelace] wrote to [ORG:the Royal Society] in [LOC:London] twice.",
    "In [LOC:Paris], [PER:Marie Curie] met [PER:Ada Lovelace] by the [LOC:Seine].",
    "[ORG:Acme] sold nothing to [ORG:the Royal Society] today.",
    "Nobody wrote anything in winter.",
    "[PER:Curie]'s letters reached [ORG:Acme] in [LOC:London] late.",
)
NESTED: Sequence[str] = (
    "[ORG:University of [LOC:Paris]] hired [PER:Marie Curie] at once.",
    "[ORG:[LOC:London] Library] opened near [LOC:Paris].",
    "The [ORG:Bank of [LOC:England]] paid [PER:[PER:Ada] Lovelace] well.",
)


def marked(text: str, document_id: str = "d", **fields: Any) -> Document:
    """A document from a text in which `[TYPE:...]` marks mentions, nested or not."""
    parts: list[str] = []
    opened: list[tuple[int, str]] = []
    mentions: list[Mention] = []
    position = length = 0
    for mark in _MARK.finditer(text):
        parts.append(text[position : mark.start()])
        length += mark.start() - position
        position = mark.end()
        if mark[1]:
            opened.append((length, mark[1]))
        else:
            start, kind = opened.pop()
            mentions.append(Mention(start, length, kind))
    return Document(document_id, "".join(parts) + text[position:], tuple(mentions), **fields)


def corpus(texts: Sequence[str] = DOCUMENTS) -> list[Document]:
    """Documents from marked texts."""
    return [marked(text, f"d{index}") for index, text in enumerate(texts)]


def recognizer(**changes: Any) -> RecognizerTask:
    """A small recognizer; `changes` are parts of the recipe, `model` over `MODEL`."""
    values = {**BASE, **changes, "task": "recognizer", "model": {**MODEL, **changes.get("model", {})}}
    recipe = parse_recipe(values, "test")
    assert isinstance(recipe, RecognizerRecipe)
    return RecognizerTask(recipe, _tokenizer(recipe.encoder))


def tagger(**changes: Any) -> TaggerTask:
    """A small tagger; `changes` are parts of the recipe."""
    values = {**BASE, **changes, "task": "tagger", "model": {"dropout": 0, **changes.get("model", {})}}
    recipe = parse_recipe(values, "test")
    assert isinstance(recipe, TaggerRecipe)
    return TaggerTask(recipe, _tokenizer(recipe.encoder))


@cache
def _tokenizer(encoder: str) -> Tokenizer:
    return load_tokenizer(encoder)


def collated(task: EncoderTask[Any], documents: Sequence[Document]) -> Any:
    """All windows of the documents in one batch."""
    return task.collate(list(task.examples(documents)), [])


def built(task: EncoderTask[Any], seed: int = 0) -> Any:
    """The task's model, the same for a seed."""
    torch.manual_seed(seed)
    return task.build()


def weighted_loss(task: EncoderTask[Any], model: nn.Module, batch: Any, step: int = 0) -> torch.Tensor:
    """The loss of one step on one batch."""
    progress = Progress(step, 1000, 0, 1)
    sums, counts = task.forward(model, batch, progress).sums, task.counts(batch, progress)
    terms = [weight * sums[part] / counts[part] for part, weight in task.weights.items() if counts[part]]
    return torch.stack(terms).sum()


def trained(
    task: EncoderTask[Any],
    documents: Sequence[Document],
    steps: int = 60,
    rate: float = 4e-3,
    until: Callable[[Any], bool] | None = None,
) -> Any:
    """The task's model after some steps on all documents at once, with thresholds fitted on them; after fewer
    where `until`, which is asked after every tenth, says of the model that it has learned enough."""
    model, batch = built(task).train(), collated(task, documents)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0, fused=True)
    for step in range(steps):
        optimizer.zero_grad()
        weighted_loss(task, model, batch, step).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if until is not None and step % 10 == 9:
            task.fit(model, documents)
            if until(model.eval()):
                return model
            model.train()
    task.fit(model, documents)
    return model.eval()


def found(task: Any, model: nn.Module, documents: Sequence[Document], **options: Any) -> list[Document]:
    """The documents with predicted mentions."""
    return list(predict(task.predictor(model), documents, **options))


def spans(document: Document) -> set[tuple[int, int, str]]:
    """The mentions of a document as a set."""
    return {(m.start, m.end, m.type) for m in document.mentions}
