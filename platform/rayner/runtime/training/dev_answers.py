"""What is scored on a development set while a model learns: every worker answers its part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from rayner.runtime.training.distributed import gather_on_first, on_first, rank, world_size
from rayner.tasks.base import Predictor
from rayner.tasks.kinds.base import Kind
from rayner.tasks.predict import predict

EVALUATION = "evaluation"
"""The folder of a checkpoint that has gold items and the answers to them."""


def predict_all(predictor: Predictor[Any, Any, Any, Any], items: Sequence[Any]) -> list[Any]:
    """The answers to all items, on worker 0 alone; each worker works on its part of them."""
    with torch.no_grad():
        mine = list(predict(predictor, items[rank() :: world_size()]))
    gathered = gather_on_first(mine)
    merged: list[Any] = [None] * (len(items) if gathered else 0)
    for worker, part in enumerate(gathered):
        merged[worker :: world_size()] = part
    return merged


def score(predictor: Predictor[Any, Any, Any, Any], items: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """The metrics, the same on every worker, and on worker 0 the answers."""
    predicted = predict_all(predictor, items)
    return on_first(lambda: predictor.evaluate(predicted, items)), predicted


def write_predictions(folder: Path, kind: Kind, gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    """Write gold items and the answers to them, a Parquet file a table; nothing without answers."""
    if not predicted:
        return
    folder.mkdir(exist_ok=True)
    for name, table in kind.to_tables(gold, predicted).items():
        pq.write_table(table, folder / f"{name}.parquet")


def read_predictions(folder: Path, kind: Kind) -> tuple[list[Any], list[Any]]:
    """What `write_predictions` wrote: gold and predicted items; none where it wrote nothing."""
    if not folder.is_dir():
        return [], []
    return kind.from_tables({path.stem: pq.read_table(path) for path in folder.glob("*.parquet")})
