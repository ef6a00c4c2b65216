"""F1 of predictors whose counts are kept, with paired intervals over documents."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.tasks.base import Predictor
from rayner.tasks.predict import predict

RESAMPLES = 2000


def counts_of(
    predictor: Predictor[Any, Any, Any, Any] | None, files: Sequence[Path], types: Sequence[str]
) -> np.ndarray:
    """As `counts`, of what a predictor finds in the documents of files."""
    return counts(*answers(predictor, files), types)


def answers(
    predictor: Predictor[Any, Any, Any, Any] | None, files: Sequence[Path]
) -> tuple[list[Document], list[Document]]:
    """The documents of files as they are, and as a predictor answers when it sees their texts alone."""
    assert predictor is not None
    gold = list(read_corpus(files).documents)
    return gold, list(predict(predictor, [replace(document, mentions=()) for document in gold]))


def counts(gold: Sequence[Document], predicted: Sequence[Document], types: Sequence[str]) -> np.ndarray:
    """Right, predicted and gold mentions of each document: int [documents, 3]."""
    pairs = [
        [{(m.start, m.end, m.type) for m in d.mentions if m.type in types} for d in both]
        for both in zip(gold, predicted, strict=True)
    ]
    return np.array([[len(right & found), len(found), len(right)] for right, found in pairs])


def f1(counts: np.ndarray) -> np.ndarray:
    """[..., 3] of right, predicted and gold mentions -> [...]"""
    return 2 * counts[..., 0] / np.maximum(1, counts[..., 1] + counts[..., 2])


def resampled(counts: np.ndarray) -> np.ndarray:
    """F1, the mean over seeds, of the same draws of documents for all rows that are compared:
    [seeds, documents, 3] -> [RESAMPLES]"""
    rng, documents = np.random.default_rng(0), counts.shape[1]
    draws = (rng.integers(0, documents, documents) for _ in range(RESAMPLES))
    return np.stack([f1(counts[:, draw].sum(1)).mean() for draw in draws])


def interval(values: np.ndarray) -> list[float]:
    """Of 95 %, of the values of the draws."""
    return np.percentile(values, [2.5, 97.5]).tolist()


def row_of_seeds(counts: np.ndarray) -> dict[str, Any]:
    """Seeds, F1 with its interval and deviation, precision, recall: [seeds, documents, 3] -> a row"""
    by_seed = f1(counts.sum(1)).tolist()
    right, found, gold = counts.sum((0, 1))
    row = {"seeds": len(by_seed), "f1": statistics.mean(by_seed), "f1_interval": interval(resampled(counts))}
    if len(by_seed) > 1:
        row["f1_deviation"] = statistics.stdev(by_seed)
    return {**row, "precision": right / max(1, found), "recall": right / gold}
