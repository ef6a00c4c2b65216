"""The one way from items to answers, behind evaluation, annotation and serving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from rayner.data.batches import forwards
from rayner.tasks.base import Predictor

Item = TypeVar("Item")
Out = TypeVar("Out")

TOKENS_PER_BATCH = 2048
_BATCHES_AHEAD = 32
"""How many batches are sorted by length together: padding against memory and delay."""


def predict(
    predictor: Predictor[Item, Any, Any, Out], items: Iterable[Item], tokens_per_batch: int = TOKENS_PER_BATCH
) -> Iterator[Out]:
    """The answer to each item, in order.

    Windows of many items share a batch, by length. Working memory is bounded by some batches and by the
    windows of one item.

    Args:
        tokens_per_batch: padded tokens a batch.
    """
    held: list[tuple[Item, list[Any]]] = []
    tokens = 0
    for item in items:
        windows = predictor.prepare(item)
        held.append((item, windows))
        tokens += sum(predictor.length_of(w) for w in windows)
        if tokens >= _BATCHES_AHEAD * tokens_per_batch:
            yield from _answer(predictor, held, tokens_per_batch)
            held, tokens = [], 0
    yield from _answer(predictor, held, tokens_per_batch)


def _answer(
    predictor: Predictor[Item, Any, Any, Out], held: Sequence[tuple[Item, list[Any]]], tokens_per_batch: int
) -> Iterator[Out]:
    windows = [window for _, prepared in held for window in prepared]
    lengths = np.array([predictor.length_of(window) for window in windows])
    scores: list[Any] = [None] * len(windows)
    for batch in forwards(np.arange(len(windows)), lengths, tokens_per_batch):
        for index, score in zip(batch, predictor.forward([windows[i] for i in batch]), strict=True):
            scores[index] = score
    begin = 0
    for item, prepared in held:
        end = begin + len(prepared)
        yield predictor.finish(item, prepared, scores[begin:end])
        begin = end
