"""Scores of a model on items with gold annotations."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from rayner.config import CorpusSettings, DocumentRecipe, StandardizerRecipe, TypeSettings
from rayner.data.schema import Document, documents_from_table, documents_to_table
from rayner.errors import CheckpointError
from rayner.metrics.intervals import span_intervals
from rayner.metrics.linking_intervals import linking_intervals
from rayner.runtime.training.distributed import gather_objects, on_first, rank, world_size
from rayner.tasks.answer_tables import answers_from_table, answers_to_table
from rayner.tasks.answers import Answer
from rayner.tasks.base import Options, Predictor
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import train_task

EVALUATION = "evaluation"

log = logging.getLogger(__name__)


def evaluate(
    checkpoint: Path,
    corpus: Path | Sequence[Path],
    *,
    format: str = "auto",
    device: str | None = None,
    intervals: bool = True,
    types: tuple[TypeSettings, ...] | None = None,
) -> dict[str, Any]:
    """Score a checkpoint on a corpus.

    Args:
        corpus: files or folders with gold annotations, in any format that `corpus convert` reads; the
            recipe's `corpus.rename` holds for them too, and types that are not looked for do not count.
        device: where to run; a GPU where there is one.
        intervals: whether to add 95 % bootstrap intervals.
        types: those to look for; by default the checkpoint's own.

    Returns:
        The metrics of the task, for spans `precision, recall, f1, ..., per_type`, and `intervals`.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        CorpusError: the corpus cannot be read.
    """
    loaded = load_checkpoint(Path(checkpoint), device)
    if isinstance(loaded.recipe, StandardizerRecipe):
        what, cure = "answers mentions, not documents", "add --index DIR, what `rayner index build` wrote"
        raise CheckpointError(str(checkpoint), what, cure)
    paths = tuple(map(str, (corpus,) if isinstance(corpus, (str, Path)) else corpus))
    names = loaded.recipe.corpus.rename if isinstance(loaded.recipe, DocumentRecipe) else {}
    settings = CorpusSettings(train=paths, dev=paths, format=format, rename=names)
    items = list(train_task(loaded.recipe.model_copy(update={"corpus": settings})).items("dev"))
    predictor = loaded.task.predictor(loaded.model, Options(types=types))
    predicted = predict_all(predictor, items)
    metrics = predictor.evaluate(predicted, items)
    if are_documents(items):
        _name_other_types(items, metrics["per_type"])
    return metrics | (intervals_of(items, predicted, metrics) if intervals else {})


def _name_other_types(documents: Sequence[Document], types: Container[str]) -> None:
    """Say which mentions are no part of the score."""
    others = Counter(m.type for d in documents for m in d.mentions if m.type not in types)
    if others:
        named = ", ".join(f"{name} ({count})" for name, count in others.most_common(10))
        log.warning("mentions of types that are not looked for do not count: %s", named)


def default_device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def predict_all(predictor: Predictor[Any, Any, Any, Any], items: Sequence[Any]) -> list[Any]:
    """The answers to all items, on every worker; each worker works on its part of them."""
    with torch.no_grad():
        mine = list(predict(predictor, items[rank() :: world_size()]))
    merged: list[Any] = [None] * len(items)
    for worker, part in enumerate(gather_objects(mine)):
        merged[worker :: world_size()] = part
    return merged


def score(predictor: Predictor[Any, Any, Any, Any], items: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """The metrics, the same on every worker, and the answers."""
    predicted = predict_all(predictor, items)
    return on_first(lambda: predictor.evaluate(predicted, items)), predicted


def intervals_of(
    gold: Sequence[Any], predicted: Sequence[Any], metrics: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Bootstrap intervals of span or linking metrics under the key `intervals`; nothing for other items."""
    if are_answers(predicted):
        return {"intervals": linking_intervals(gold, predicted)}
    if not are_documents([*gold[:1], *predicted[:1]]):
        return {}
    return {"intervals": span_intervals(gold, predicted, list(metrics.get("per_type", {})) or None)}


def are_documents(items: Sequence[Any]) -> bool:
    """Whether there are items and they are documents."""
    return bool(items) and all(isinstance(item, Document) for item in items)


def are_answers(items: Sequence[Any]) -> bool:
    """Whether there are items and they are answers of a standardizer."""
    return bool(items) and all(isinstance(item, Answer) for item in items)


def write_predictions(folder: Path, gold: Sequence[Any], predicted: Sequence[Any]) -> None:
    """Write documents and the answers to them as `gold.parquet` and `predictions.parquet`; mentions and the
    answers to them as `answers.parquet`."""
    if are_documents(gold) and are_documents(predicted):
        folder.mkdir(exist_ok=True)
        pq.write_table(documents_to_table(gold), folder / "gold.parquet")
        pq.write_table(documents_to_table(predicted), folder / "predictions.parquet")
    elif are_answers(predicted):
        folder.mkdir(exist_ok=True)
        pq.write_table(answers_to_table(gold, predicted), folder / "answers.parquet")


def read_predictions(folder: Path) -> tuple[list[Any], list[Any]]:
    """What `write_predictions` wrote: gold and predicted items; none where it wrote nothing."""
    if (folder / "answers.parquet").exists():
        return answers_from_table(pq.read_table(folder / "answers.parquet"))
    if not (folder / "gold.parquet").exists():
        return [], []
    tables = (pq.read_table(folder / f"{name}.parquet") for name in ("gold", "predictions"))
    gold, predicted = (list(documents_from_table(table)) for table in tables)
    return gold, predicted
