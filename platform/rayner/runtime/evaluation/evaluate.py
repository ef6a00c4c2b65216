"""Scores of a model on items with gold annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rayner.tasks.kinds.base import Kind
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.predict import predict
from rayner.tasks.stages import read_pipeline


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

    A corpus of documents is read while it is answered: of what was answered, only mentions are held.

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
    items: list[Any] = []

    def given() -> Iterator[Any]:
        for item in gold.items:
            items.append(kind.scored(item))
            yield item

    with torch.no_grad():
        predicted = [kind.scored(answer) for answer in predict(pipeline.predictor, given())]
    metrics = pipeline.predictor.evaluate(predicted, items)
    found = {**metrics, **gold.notes}
    if intervals:
        found["intervals"] = kind.intervals(items, predicted, metrics)
    return found | kind.curves(items, predicted)
