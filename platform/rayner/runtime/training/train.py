"""Training: one call, in this process or on Ray Train workers."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from rayner.config import BaseRecipe
from rayner.config.named_paths import named_paths
from rayner.config.recipe_files import dump_recipe
from rayner.config.without_effect import settings_without_effect
from rayner.counted import counted
from rayner.errors import CheckpointError, RecipeError
from rayner.files.locks import LOCK, locked
from rayner.files.publishing import Publication
from rayner.files.run_checkpoints import BEST, LAST, LOG, MANIFEST, SWEEP
from rayner.files.uris import uri_of
from rayner.files.whole import whole_file, write_bytes, write_json
from rayner.files.working import worked_on
from rayner.models.precision_choice import set_precision
from rayner.models.threads import heed_quota
from rayner.runtime.run_folder import REPORT, TRIALS, check_apart, check_no_sweep, check_out, check_own
from rayner.runtime.tracking import MLFLOW_PARENT, MLFLOW_RUN, Tracker, check_mlflow
from rayner.runtime.training.dev_answers import EVALUATION, read_predictions
from rayner.runtime.training.example_building import (
    build_examples,
    cache_folder,
    find_units,
    read_all,
    read_each,
)
from rayner.runtime.training.loop import Run, work
from rayner.runtime.training.optimization import checkpoint_gradients
from rayner.runtime.training.run_state import RAY_SNAPSHOT, TrainState, key_of_data, read_state
from rayner.runtime.training.train_call import Launch
from rayner.runtime.training.training_progress import watcher
from rayner.tasks.base import Unit
from rayner.tasks.checkpoint import METRICS
from rayner.tasks.checkpoint_files import RECIPE
from rayner.tasks.encoder_task import EncoderTask, default_device, load_model
from rayner.tasks.registry import task_of, train_task

RESULT = "result.json"
_WRITTEN = (LAST, BEST, "tensorboard", RAY_SNAPSHOT, RESULT, LOG, RECIPE, MLFLOW_RUN)
"""What a run writes."""

log = logging.getLogger(__name__)


def train(
    recipe: BaseRecipe,
    out: Path,
    fresh: bool = False,
    workers: int | None = None,
    cache: Path | None = None,
    watch: Tracker | None = None,
    publication: Publication | None = None,
) -> dict[str, Any]:
    """Train what a recipe describes, or go on with the run in `out`.

    A run that was killed goes on from its last checkpoint: with as many workers, to the same parameters; with
    another number, with the same examples in each step. A finished run returns its result again.

    Args:
        out: the folder of the run, or its URI; `out/best` will be the checkpoint. Workers on other machines
            must see the folder.
        fresh: remove what an earlier run left in `out`.
        workers: Ray Train workers; 0 trains in this process. By default what the recipe says.
        cache: the folder of example sets. By default the one that RAYNER_CACHE names, or one beside `out`,
            which for a run at a URI without workers is one of this machine.
        watch: who is shown what happens; by default whoever looks at standard error.
        publication: what puts the folder in place that `out` lies in, where the caller has opened it.

    Returns:
        `checkpoint` (a path), `metrics` (on the development set), `steps`, `seconds`, `compute_precision`;
        where float32 ran and bfloat16 is faster here, `bfloat16_time`, the share of the time that it takes.

    Raises:
        CorpusError: `out` lies in what the recipe reads, or holds some of it.
        RecipeError: `out` is no folder or holds a run of another recipe, or the recipe's corpus is not there.
        CheckpointError: `out/last` is damaged, or a finished run has no `best`.
        InputError: the loss is no number, the disk is full, the encoder cannot do what the recipe asks,
            another process trains in `out`, or a sweep is in it, or files of no run that one would replace.
        StorageError: `out` cannot be read, written or locked now; the run can be resumed.
    """
    for key, why in settings_without_effect(recipe):
        log.warning("%s has no effect: %s", key, why)
    scaling, count = recipe.scaling, recipe.scaling.workers if workers is None else workers
    if scaling.max_workers and not count:
        log.warning("scaling.max_workers has no effect: without workers the run is in this process")
    if count and not scaling.gpus_per_worker and torch.cuda.is_available():
        what = "there is a GPU, and %s on CPUs: --set scaling.gpus_per_worker=1, with a worker for each GPU"
        log.warning(what, "the worker computes" if count == 1 else f"the {count} workers compute")
    result = train_until(None, recipe, out, fresh, workers, cache, watch, publication)
    assert result is not None
    return result


def train_until(
    epochs: int | None,
    recipe: BaseRecipe,
    out: Path,
    fresh: bool = False,
    workers: int | None = None,
    cache: Path | None = None,
    watch: Tracker | None = None,
    publication: Publication | None = None,
) -> dict[str, Any] | None:
    """`train`, but it pauses after so many epochs: None then, and the next call goes on from there.

    The schedule of the learning rate is that of the whole run.
    """
    workers = recipe.scaling.workers if workers is None else workers
    _check_gpus(recipe, workers)
    heed_quota()
    task = train_task(recipe)
    launch = Launch(task, out, workers, watch or watcher(task.metric), epochs, publication)
    if publication is not None:
        return _train_in(replace(launch, out=out.resolve()), fresh, cache)
    check_apart(named_paths(recipe), out, _WRITTEN)
    if uri_of(out) is None:
        check_out(Path(out))
        # The files of a sweep are no others': it is refused as one, once its folder is locked.
        marks = ([f"{LAST}/{MANIFEST}"], [f"{BEST}/{MANIFEST}"], [RECIPE, LOG], [SWEEP, TRIALS])
        check_own(Path(out), marks, _WRITTEN)
    else:
        # Whoever opens the place takes it over, from a sweep that runs there as well.
        check_no_sweep(Path(out), at_uri=True)
    with worked_on(out, "trains in this folder", fresh, written=_WRITTEN) as (folder, publication):
        launch = replace(launch, out=folder.resolve(), publication=publication)
        return _train_in(launch, fresh, cache)


def _train_in(launch: Launch, fresh: bool, cache: Path | None) -> dict[str, Any] | None:
    out, task, recipe = launch.out, launch.task, launch.recipe
    with locked(out / LOCK, "trains in this folder"):
        check_no_sweep(out, launch.publication is not None)
        state = None if fresh else read_state(out, recipe)
        # Of a finished run `last/` may have been removed.
        finished = (out / BEST / MANIFEST).exists() if state is None else state.finished
        if not fresh and finished and (out / RESULT).exists():
            return _result_of_finished(launch)
        # A run below a sweep goes on without its tracking.
        if not (out / MLFLOW_PARENT).exists():
            check_mlflow(recipe)
        cache = cache or cache_folder(_beside(out, launch.publication, launch.workers) / ".examples")
        if state is None:
            if task.builds_from_items:
                find_units(task, "train", cache, launch.workers)
            # What cannot be built is refused before its examples are made, which may take hours.
            model = task.build()
            if recipe.training.gradient_checkpointing:
                checkpoint_gradients(model)
            del model
        if fresh:
            # What cannot be learned from removes no run.
            build_examples(task, cache, launch.workers)
            for split in ("dev", "calibration"):
                find_units(task, split, cache, launch.workers)
            _clear(out)
        return _train(launch, cache)


def _result_of_finished(launch: Launch) -> dict[str, Any]:
    """What a run that is finished said at its end, wherever its folder lies now.

    Raises:
        CheckpointError: it has no checkpoint any more.
    """
    out = launch.out
    if not (out / BEST / MANIFEST).exists():
        what = "is missing, though the run is finished"
        raise CheckpointError(str(out / BEST), what, "restore it, or train anew with --fresh")
    log.info("the run in %s is finished: its data were not looked at again; --fresh starts it over", out)
    shown = launch.publication.shown(out) if launch.publication else str(out)
    return {**json.loads((out / RESULT).read_text(encoding="utf-8")), "checkpoint": f"{shown}/{BEST}"}


def _beside(out: Path, publication: Publication | None, workers: int) -> Path:
    """Where the example sets of a run lie by default: workers of a run at a URI may be on other machines."""
    at_uri = None if publication is None or not workers else Path(publication.uri)
    # Beside a bucket there is nothing.
    return out.parent if at_uri is None or len(at_uri.parts) <= 2 else at_uri.parent


def _check_gpus(recipe: BaseRecipe, workers: int) -> None:
    """Refuse what NCCL cannot do: several workers on one GPU."""
    gpus, most = recipe.scaling.gpus_per_worker, max(workers, recipe.scaling.max_workers or 0)
    if workers and most > 1 and gpus % 1:
        what = f"{most} workers with {gpus:g} GPUs each: NCCL takes whole GPUs"
        raise RecipeError("scaling.gpus_per_worker", what, "set it to 1, or train with one worker")


def _train(launch: Launch, cache: Path) -> dict[str, Any] | None:
    task, recipe, out, publication = launch.task, launch.recipe, launch.out, launch.publication
    examples = build_examples(task, cache, launch.workers)
    dev, apart = (find_units(task, split, cache, launch.workers) for split in ("dev", "calibration"))
    has_dev = any(len(unit.sizes) for unit in dev)
    if recipe.training.patience is not None and not has_dev:
        what = "training.patience waits for scores on a development set, and there is none: the run takes %s"
        log.warning(what, counted(recipe.training.epochs, "epoch"))
    if recipe.training.evaluations_per_epoch > 1 and not has_dev:
        log.warning("training.evaluations_per_epoch has no effect: there is no development set")
    if publication is None:
        # With the recipe it tells that the folder is a run's. At a URI, files of others are not touched.
        (out / LOG).touch()
    write_bytes(out / RECIPE, dump_recipe(recipe).encode())
    if launch.workers == 0:
        run = Run(
            task=task,
            examples=examples,
            key=key_of_data(examples.manifest["content"], dev, apart),
            dev=read_all(task, dev),
            out=out,
            device=torch.device(default_device()),
            watchers=[launch.watch],
            until=launch.until,
            publication=publication,
            calibration=read_all(task, apart),
        )
        state = work(run)
    else:
        from rayner.runtime.training.ray_workers import work_on_cluster

        state = work_on_cluster(launch, examples, dev, apart)
    if not state.finished:
        return None
    return conclude(task, dev, out, state, publication.shown(out) if publication else str(out))


def conclude(
    task: EncoderTask[Any],
    dev: Sequence[Unit],
    out: Path,
    state: TrainState,
    shown: str | None = None,
) -> dict[str, Any]:
    """Complete `OUT/best` with confidence intervals and the tables of the report, and write the result.

    Args:
        shown: the run's folder as the user names it.
    """
    best = out / BEST
    metrics: dict[str, Any] = json.loads((best / METRICS).read_text(encoding="utf-8"))
    kind = task_of(task.recipe).kind
    gold, predicted = read_predictions(best / EVALUATION, kind)
    if gold:
        metrics["intervals"] = kind.intervals(gold, predicted, metrics)
    if task.examines and any(len(unit.sizes) for unit in dev):
        model = load_model(best, task).to(default_device()).eval()
        set_precision(model, state.precision)
        for name, table in task.inspect(model, read_each(task, dev)).items():
            with whole_file(best / EVALUATION / f"{name}.parquet") as path:
                pq.write_table(table, path)
        metrics |= task.measure(model, read_each(task, dev))
    write_json(best / METRICS, metrics)
    result = {
        "checkpoint": f"{shown or out}/{BEST}",
        "metrics": metrics,
        "steps": state.step,
        **({"best_step": state.best_step} if state.best_step else {}),
        "seconds": round(state.seconds, 1),
        "compute_precision": state.precision,
        **({} if state.bfloat16_time is None else {"bfloat16_time": state.bfloat16_time}),
    }
    write_json(out / RESULT, result)
    return result


def _clear(out: Path) -> None:
    """Remove what a run has written, and nothing else that may lie in the folder."""
    for name in (*_WRITTEN, REPORT):
        for path in (out / name, *out.glob(f".{name}.*")):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
