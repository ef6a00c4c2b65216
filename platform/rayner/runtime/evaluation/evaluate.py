"""Scores of a model on items with gold annotations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from rayner.config import BaseRecipe
from rayner.config.base import AskedPrecision
from rayner.models.precision_choice import choose
from rayner.runtime.actors import each_on_actors, needs_of_worker
from rayner.tasks.base import Predictor
from rayner.tasks.kinds.base import Kind
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.predict import has_spare_core, predict
from rayner.tasks.stages import Pipeline, PipelineSettings, read_pipeline

PART = 64
"""Items that an actor is given at once."""

log = logging.getLogger(__name__)


def evaluate(
    checkpoint: Path,
    corpus: Path | Sequence[Path],
    *,
    format: str = "auto",
    device: str | None = None,
    intervals: bool = True,
    types: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    workers: int = 0,
    precision: AskedPrecision = None,
) -> dict[str, Any]:
    """Score a checkpoint, or the stages of a pipeline file, on a corpus.

    A corpus of documents is read while it is answered: of what was answered, only mentions are held.

    Args:
        corpus: files or folders with gold annotations, in any format that the task's kind of items reads.
        device: where to run; a GPU where there is one.
        intervals: whether to add 95 % bootstrap intervals.
        types: of the corpus, only mentions of these types; by default what the checkpoint's recipe says.
        options: of the task, by name: `types` to look for, `shift`, `overlap` of a recognizer; `index`,
            `operating_point`, `nil_share` of a standardizer.
        workers: Ray actors that answer, each with what the recipe's `scaling` asks for; 0 for this process.
        precision: what encoders compute in; `auto` is decided here, for all workers.

    Returns:
        The metrics of the task, for spans `precision, recall, f1, ..., per_type`, for linking `top1, ...`, of
        which those of `seen` and `unseen` strings apart; `intervals`; points of curves; counts of rows that
        could not be read, where the kind of items tells them; `compute_precision`.

    Raises:
        CheckpointError: the checkpoint cannot be used, or has nothing to answer.
        InputError: an option that the task does not have, or that cannot be had.
        CorpusError: the corpus cannot be read.
    """
    settings = read_pipeline(checkpoint, options, precision)
    kind: Kind = Documents() if settings.is_file else settings.stages[0].record.kind
    if not settings.is_file and kind.evaluation_options:
        settings = read_pipeline(checkpoint, {**kind.evaluation_options, **(options or {})}, precision)
    pipeline = settings.pipeline(device)
    recipe: Any = next(one.recipe for one in pipeline.checkpoints if one.record.kind.name == kind.name)
    paths = [corpus] if isinstance(corpus, (str, Path)) else list(corpus)
    gold = kind.read(list(map(Path, paths)), format, recipe, pipeline.predictor, types)
    items: list[Any] = []

    def given() -> Iterator[Any]:
        for item in gold.items:
            items.append(kind.scored(item))
            yield item

    if workers:
        answers = _answers_of_actors(pipeline.settings, recipe, given(), device, workers)
    else:
        answers = _answers(pipeline.predictor, given())
    predicted = [kind.scored(answer) for answer in answers]
    metrics = pipeline.predictor.evaluate(predicted, items)
    found = {**metrics, **gold.notes}
    if intervals:
        found["intervals"] = kind.intervals(items, predicted, metrics)
    return found | kind.curves(items, predicted) | told_precision(pipeline)


def told_precision(pipeline: Pipeline) -> dict[str, Any]:
    """What it answers in; what bfloat16 would save, where float32 is the slower one, goes to the log."""
    found = choose(pipeline.precision, pipeline.checkpoints[0].model, advise=True)
    if found.slower_by is not None:
        log.info("bfloat16 takes %.2f of float32's time here: --precision auto", found.slower_by)
    return {"compute_precision": found.precision}


def _answers(predictor: Predictor[Any, Any, Any, Any], items: Iterable[Any]) -> Iterator[Any]:
    with torch.no_grad():
        yield from predict(predictor, items, ahead=has_spare_core())


def _answers_of_actors(
    settings: PipelineSettings, recipe: BaseRecipe, items: Iterator[Any], device: str | None, workers: int
) -> Iterator[Any]:
    parts = iter(lambda: list(islice(items, PART)), [])
    load = partial(_answerer, settings, device)
    for part in each_on_actors(load, parts, workers, needs_of_worker(recipe.scaling)):
        yield from part


def _answerer(settings: PipelineSettings, device: str | None) -> Callable[[Sequence[Any]], list[Any]]:
    predictor = settings.load(device)
    return lambda items: list(_answers(predictor, items))
