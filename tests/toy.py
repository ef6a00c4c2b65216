"""A task of a package of its own, small enough to train in a blink: which words are mentions."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence as pad

from rayner.config import DocumentRecipe
from rayner.data.schema import Document, Mention
from rayner.data.words import find_words
from rayner.metrics.spans import score_spans
from rayner.tasks.base import Output, Progress, Seed
from rayner.tasks.corpus_task import CorpusTask
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.registry import Task


class ToyRecipe(DocumentRecipe):
    task: Literal["toy"]
    dropout: float = 0.0


class ToyBatch(NamedTuple):
    ids: Tensor
    mask: Tensor
    gold: Tensor


class ToyModel(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding, self.norm, self.head = nn.Embedding(64, 8), nn.LayerNorm(8), nn.Linear(8, 1)
        self.dropout, self.unused = nn.Dropout(dropout), nn.Linear(3, 3)
        self.register_buffer("shift", torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.dropout(self.norm(self.embedding(ids))))[..., 0]


class ToyTask(CorpusTask[ToyRecipe]):
    weights: Mapping[str, float] = {"word": 1.0, "mention": 0.5}

    def examples(self, items: Iterable[Document]) -> Iterator[dict[str, Any]]:
        for document in items:
            words = find_words(document.text)
            gold = {(m.start, m.end) for m in document.mentions if m.type == self.recipe.types[0].name}
            ids = [zlib.crc32(document.text[a:b].encode()) % 64 for a, b in words]
            yield {"ids": ids, "gold": [w in gold for w in words], "length": len(ids)}

    def collate(self, examples: Sequence[Mapping[str, Any]], seeds: Sequence[Seed]) -> ToyBatch:
        rows = [[torch.tensor(list(e[name])) for e in examples] for name in ("ids", "gold")]
        mask = pad([torch.ones(len(row), dtype=torch.bool) for row in rows[0]], batch_first=True)
        return ToyBatch(pad(rows[0], batch_first=True), mask, pad(rows[1], batch_first=True).double())

    def counts(self, batch: ToyBatch, progress: Progress) -> dict[str, float]:
        return {"word": float(batch.mask.sum()), "mention": float(batch.gold.sum())}

    def build(self) -> nn.Module:
        return ToyModel(self.recipe.dropout)

    def forward(self, model: nn.Module, batch: ToyBatch, progress: Progress) -> Output:
        scores = model(batch.ids)
        losses = F.binary_cross_entropy_with_logits(scores, batch.gold.to(scores.dtype), reduction="none")
        return Output({"word": losses[batch.mask].sum(), "mention": losses[batch.gold > 0].sum()})

    def fit(self, model: nn.Module, dev: Sequence[Document]) -> None:
        model.shift.fill_(len(dev) / 1000)  # type: ignore[operator]

    def predictor(self, model: nn.Module, options: Any = None) -> ToyPredictor:
        return ToyPredictor(self, model)


class ToyPredictor:
    forward_cost, tokens_per_batch, whole = 0, 2048, False

    def __init__(self, task: ToyTask, model: nn.Module) -> None:
        self.task, self.model, self.names = task, model, [task.recipe.types[0].name]

    def prepare(self, item: Document) -> list[dict[str, Any]]:
        return [row for row in self.task.examples([item]) if row["ids"]]

    def length_of(self, window: Mapping[str, Any]) -> int:
        return window["length"]

    @torch.inference_mode()
    def forward(self, windows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
        ids = self.task.collate(windows, []).ids.to(self.model.shift.device)  # type: ignore[arg-type]
        scores = self.model.eval()(ids).sigmoid().tolist()
        return [row[: window["length"]] for row, window in zip(scores, windows, strict=True)]

    def finish(self, item: Document, windows: Sequence[Any], scores: Sequence[list[float]]) -> Document:
        words = zip(find_words(item.text) if windows else (), *scores, strict=True)
        return replace(item, mentions=tuple(Mention(*w, self.names[0], score=s) for w, s in words if s > 0.5))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        return score_spans(gold, predicted, self.names)


TOY = Task("toy", ToyRecipe, ToyTask, Documents(), stage="mentions")
