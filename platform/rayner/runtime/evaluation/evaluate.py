"""Scores of a model on items with gold annotations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe
from rayner.config.base import AskedPrecision
from rayner.errors import InputError
from rayner.files.locks import LOCK, locked
from rayner.files.uris import uri_of
from rayner.files.working import worked_on
from rayner.models.precision_choice import choose
from rayner.runtime.actors import needs_of_worker
from rayner.runtime.answers import answers_here, answers_of_actors
from rayner.runtime.evaluation.evaluation_folder import (
    OUTCOMES,
    check_folder,
    documents_file,
    forget_evaluation,
    outcomes_table,
    write_about,
    write_tables,
)
from rayner.runtime.evaluation.learned_from import learned_from
from rayner.runtime.model_memory import held_by
from rayner.runtime.parallel import parallel_map
from rayner.tasks.end_to_end import evaluate_end_to_end, without_answers
from rayner.tasks.kinds.base import Kind
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.predict import stages_of
from rayner.tasks.stages import Pipeline, PipelineSettings, read_pipeline

log = logging.getLogger(__name__)
DOING = "evaluates into this folder"


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
    out: Path | None = None,
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
            With any, documents are counted before on all CPUs of the cluster, whose nodes must see them.
        precision: what encoders compute in; `auto` is decided here, for all workers.
        out: a folder, or its URI, for the metrics, gold items and answers, as `evaluation_folder` says; what
            an evaluation left in it is replaced.

    Returns:
        The metrics of the task, for spans `precision, recall, f1, ..., per_type`, for linking `top1, ...`, of
        which those of `seen` and `unseen` strings apart; `intervals`; points of curves; counts of rows that
        could not be read, where the kind of items tells them; `compute_precision`. Of a pipeline file also
        `end_to_end`, as `score_end_to_end`: the corpus is read a second time for the stages after that of
        mentions, which are given the gold mentions.

    Raises:
        CheckpointError: the checkpoint cannot be used, or has nothing to answer.
        InputError: an option that the task does not have, or that cannot be had, a pipeline file without a
            stage that finds mentions, or another process that evaluates into `out`.
        CorpusError: the corpus cannot be read.
    """
    with _opened(out) as folder, ExitStack() as alone:
        settings, kind = _read(checkpoint, options, precision)
        pipeline = settings.pipeline(device)
        # Of a file the one that finds what is scored.
        wanted = "mentions" if settings.is_file else settings.stages[0].record.stage
        recipe: Any = next(one.recipe for one in pipeline.checkpoints if one.record.stage == wanted)
        paths = [corpus] if isinstance(corpus, (str, Path)) else list(corpus)
        paths = list(map(Path, paths))
        # As a training does: on all CPUs of the cluster.
        mapper = partial(parallel_map, workers=None if workers else 0)
        supports = [getattr(stage.options, "support", None) for stage in settings.stages]
        for line in learned_from([one.recipe for one in pipeline.checkpoints], filter(None, supports), paths):
            log.warning(line)
        gold = kind.read(paths, format, recipe, pipeline.predictor, types, mapper)
        work = _Work(pipeline.settings, recipe, device, workers)
        items: list[Any] = []
        predicted: list[Any] = []
        written = folder if settings.answers_documents else None
        if out is not None and folder is not None:
            alone.enter_context(locked(folder / LOCK, DOING) if uri_of(out) is None else nullcontext())
        with documents_file(written, "gold") as keep, documents_file(written, "predictions") as keep_answer:

            def given() -> Iterator[Any]:
                for item in gold.items:
                    items.append(kind.scored(item))
                    keep(item)
                    yield item

            for answer in work.answers(pipeline.predictor, attrgetter("predictor"), given()):
                predicted.append(kind.scored(answer))
                keep_answer(answer)
            if folder is not None:
                forget_evaluation(folder)
        metrics = pipeline.predictor.evaluate(predicted, items)
        found = {**metrics, **gold.notes}
        if intervals:
            found["intervals"] = kind.intervals(items, predicted, metrics)
        found |= kind.curves(items, predicted)
        tables = {} if folder is None or written is not None else kind.to_tables(items, predicted)
        if settings.is_file:
            later = pipeline.after_mentions
            bare = map(without_answers, gold.items)
            part = attrgetter("after_mentions")
            on_gold = [] if later is None else map(kind.scored, work.answers(later, part, bare))
            stages = stages_of(pipeline.predictor)
            whole = evaluate_end_to_end(stages, items, predicted, list(on_gold), intervals=intervals)
            found["end_to_end"] = whole.scores
            if folder is not None:
                tables[OUTCOMES] = outcomes_table(whole.outcomes, pipeline.entity_names(whole.ids))
        found |= told_precision(pipeline)
        if folder is not None:
            write_tables(folder, tables, written is not None)
            write_about(folder, checkpoint, settings, paths, found)
        return found


@contextmanager
def _opened(out: Path | None) -> Iterator[Path | None]:
    """The folder to write to."""
    if out is None:
        yield None
        return
    # Before anything is written there: at a URI, whoever works there would stop.
    check_folder(out)
    with worked_on(out, DOING, fresh=True) as (folder, _):
        yield folder


def _read(
    checkpoint: Path, options: Mapping[str, Any] | None, precision: AskedPrecision
) -> tuple[PipelineSettings, Kind]:
    """What answers, with the options of an evaluation, and the kind of items that it is scored on."""
    settings = read_pipeline(checkpoint, options, precision)
    if settings.is_file and not settings.finds_mentions:
        what = "has no stage that finds mentions, by which a pipeline is scored"
        raise InputError(str(checkpoint), what, "evaluate its checkpoints one by one")
    kind: Kind = Documents() if settings.is_file else settings.stages[0].record.kind
    if not settings.is_file and kind.evaluation_options:
        settings = read_pipeline(checkpoint, {**kind.evaluation_options, **(options or {})}, precision)
    return settings, kind


def told_precision(pipeline: Pipeline) -> dict[str, Any]:
    """What it answers in; what bfloat16 would save, where float32 is the slower one, goes to the log."""
    found = choose(pipeline.precision, pipeline.checkpoints[0].model, advise=True)
    if found.slower_by is not None:
        log.info("bfloat16 takes %.2f of float32's time here: --precision auto", found.slower_by)
    return {"compute_precision": found.precision}


@dataclass(frozen=True, slots=True)
class _Work:
    """Where items are answered: in this process, or by actors that load the same pipeline."""

    settings: PipelineSettings
    recipe: BaseRecipe
    device: str | None
    workers: int

    def answers(
        self, predictor: Any, part_of: Callable[[Pipeline], Any], items: Iterable[Any]
    ) -> Iterator[Any]:
        """The answers of a predictor, which is what `part_of` takes of the pipeline."""
        if not self.workers:
            return answers_here(predictor, items)
        load = partial(_loaded, self.settings, self.device, part_of)
        needs, held = needs_of_worker(self.recipe.scaling), held_by(self.settings.stages)
        return answers_of_actors(load, items, self.workers, needs, held, self.device)


def _loaded(settings: PipelineSettings, device: str | None, part_of: Callable[[Pipeline], Any]) -> Any:
    return part_of(settings.pipeline(device))
