"""Scores of a model on items with gold annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from rayner.runtime.training.distributed import gather_objects, on_first, rank, world_size
from rayner.tasks.base import Predictor
from rayner.tasks.kinds.base import Kind
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.predict import has_spare_core, predict
from rayner.tasks.stages import read_pipeline

EVALUATION = "evaluation"


def evaluate(
    checkpoint: Path,
    corpus: Path | Sequence[Path],
    *,
    format: str = "auto",
    device: str | None = None,
    intervals: bool = True,
    types: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Score a checkpoint, or the stages of a pipeline file, on a corpus.

    Args:
        corpus: files or folders with gold annotations, in any format that the task's kind of items reads.
        device: where to run; a GPU where there is one.
        intervals: whether to add 95 % bootstrap intervals.
        types: of the corpus, only mentions of these types; by default what the checkpoint's recipe says.
        options: of the task, by name: `types` to look for, `shift`, `overlap` of a recognizer; `index`,
            `operating_point` of a standardizer.

    Returns:
        The metrics of the task, for spans `precision, recall, f1, ..., per_type`, for linking `top1, ...`, of
        which those of `seen` and `unseen` strings apart; `intervals`; points of curves; counts of rows that
        could not be read, where the kind of items tells them.

    Raises:
        CheckpointError: the checkpoint cannot be used, or has nothing to answer.
        InputError: an option that the task does not have, or that cannot be had.
        CorpusError: the corpus cannot be read.
    """
    settings = read_pipeline(checkpoint, options)
    kind: Kind = Documents() if settings.is_file else settings.stages[0].record.kind
    if not settings.is_file and kind.evaluation_options:
        settings = read_pipeline(checkpoint, {**kind.evaluation_options, **(options or {})})
    pipeline = settings.pipeline(device)
    recipe: Any = next(one.recipe for one in pipeline.checkpoints if one.record.kind.name == kind.name)
    paths = [corpus] if isinstance(corpus, (str, Path)) else list(corpus)
    gold = kind.read(list(map(Path, paths)), format, recipe, pipeline.predictor, types)
    predicted = predict_all(pipeline.predictor, gold.items, has_spare_core())
    metrics = pipeline.predictor.evaluate(predicted, gold.items)
    found = {**metrics, **gold.notes}
    if intervals:
        found["intervals"] = kind.intervals(gold.items, predicted, metrics)
    return found | kind.curves(gold.items, predicted)


def default_device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def predict_all(
    predictor: Predictor[Any, Any, Any, Any], items: Sequence[Any], ahead: bool = False
) -> list[Any]:
    """The answers to all items, on every worker; each worker works on its part of them."""
    with torch.no_grad():
        mine = list(predict(predictor, items[rank() :: world_size()], ahead=ahead))
    merged: list[Any] = [None] * len(items)
    for worker, part in enumerate(gather_objects(mine)):
        merged[worker :: world_size()] = part
    return merged


def score(predictor: Predictor[Any, Any, Any, Any], items: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """The metrics, the same on every worker, and the answers."""
    predicted = predict_all(predictor, items)
    return on_first(lambda: predictor.evaluate(predicted, items)), predicted


def write_predictions(folder: Path, kind: Kind, gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    """Write gold items and the answers to them, a Parquet file a table; nothing without items."""
    if not gold:
        return
    folder.mkdir(exist_ok=True)
    for name, table in kind.to_tables(gold, predicted).items():
        pq.write_table(table, folder / f"{name}.parquet")


def read_predictions(folder: Path, kind: Kind) -> tuple[list[Any], list[Any]]:
    """What `write_predictions` wrote: gold and predicted items; none where it wrote nothing."""
    if not folder.is_dir():
        return [], []
    return kind.from_tables({path.stem: pq.read_table(path) for path in folder.glob("*.parquet")})
