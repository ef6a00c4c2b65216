"""Training: one call, in this process or on Ray Train workers."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rayner.config import BaseRecipe
from rayner.config.reading import dump_recipe
from rayner.errors import RecipeError
from rayner.runtime.evaluation.evaluate import EVALUATION, default_device, read_predictions
from rayner.runtime.locks import locked
from rayner.runtime.tracking import LOG, MLFLOW_RUN, Tracker
from rayner.runtime.training.example_sets import build_examples, find_units, read_all
from rayner.runtime.training.loop import Run, work
from rayner.runtime.training.optimization import checkpoint_gradients
from rayner.runtime.training.progress import watcher
from rayner.runtime.training.run_state import BEST, LAST, TrainState, read_state
from rayner.tasks.base import RunTask, Unit
from rayner.tasks.checkpoint import METRICS, RECIPE, load_model
from rayner.tasks.registry import task_of, train_task

RESULT = "result.json"
CACHE_VARIABLE = "RAYNER_CACHE"

log = logging.getLogger(__name__)


def train(
    recipe: BaseRecipe,
    out: Path,
    fresh: bool = False,
    workers: int | None = None,
    cache: Path | None = None,
    watch: Tracker | None = None,
) -> dict[str, Any]:
    """Train what a recipe describes, or go on with the run in `out`.

    A run that was killed goes on from its last checkpoint: with as many workers, to the same parameters; with
    another number, with the same examples in each step. A finished run returns its result again.

    Args:
        out: the folder of the run; `out/best` will be the checkpoint. Workers on other machines must see it.
        fresh: remove what an earlier run left in `out`.
        workers: Ray Train workers; 0 trains in this process. By default what the recipe says.
        cache: the folder of example sets. By default the one that RAYNER_CACHE names, or one beside `out`.
        watch: who is shown what happens; by default whoever looks at standard error.

    Returns:
        `checkpoint` (a path), `metrics` (on the development set), `steps`, `seconds`.

    Raises:
        RecipeError: `out` is no folder or holds a run of another recipe, or the recipe's corpus is not there.
        CheckpointError: `out/last` is damaged.
        InputError: the loss is no number, the disk is full, the encoder cannot do what the recipe asks, or
            another process trains in `out`.
        StorageError: `out` cannot be read, written or locked now; the run can be resumed.
    """
    result = train_until(None, recipe, out, fresh, workers, cache, watch)
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
) -> dict[str, Any] | None:
    """`train`, but it pauses after so many epochs: None then, and the next call goes on from there.

    The schedule of the learning rate is that of the whole run.
    """
    if ":/" in str(out):
        raise RecipeError(
            f"--out {out}", "is no folder", "mount the storage, and name the folder that all nodes see"
        )
    out = Path(out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / ".lock", "trains in this folder"):
        if fresh:
            _clear(out)
        state = read_state(out, recipe)
        if state is not None and state.finished and (out / RESULT).exists():
            log.info("the run in %s is finished; --fresh starts it over", out)
            return json.loads((out / RESULT).read_text(encoding="utf-8"))
        task = train_task(recipe)
        if state is None:
            # What cannot be built is refused before its examples are made, which may take hours.
            model = task.build()
            if recipe.training.gradient_checkpointing:
                checkpoint_gradients(model)
            del model
        workers = recipe.scaling.workers if workers is None else workers
        cache = cache or Path(os.environ.get(CACHE_VARIABLE, out.parent / ".examples"))
        return _train(recipe, task, out, workers, cache, watch or watcher(), epochs)


def _train(
    recipe: BaseRecipe,
    task: RunTask,
    out: Path,
    workers: int,
    cache: Path,
    watch: Tracker,
    until: int | None,
) -> dict[str, Any] | None:
    examples = build_examples(task, "train", cache, workers)
    dev = find_units(task, "dev", cache, workers)
    (out / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    if workers == 0:
        key = examples.manifest["content"]
        run = Run(recipe, task, examples, key, read_all(task, dev), out, default_device(), watch, until)
        state = work(run)
    else:
        from rayner.runtime.training.cluster import work_on_cluster

        state = work_on_cluster(recipe, task, examples, dev, out, workers, watch, until)
    return None if not state.finished else conclude(recipe, task, dev, out, state)


def conclude(
    recipe: BaseRecipe, task: RunTask, dev: Sequence[Unit], out: Path, state: TrainState
) -> dict[str, Any]:
    """Complete `OUT/best` with confidence intervals and the tables of the report, and write the result."""
    best = out / BEST
    metrics: dict[str, Any] = json.loads((best / METRICS).read_text(encoding="utf-8"))
    kind = task_of(recipe).kind
    gold, predicted = read_predictions(best / EVALUATION, kind)
    if gold:
        metrics["intervals"] = kind.intervals(gold, predicted, metrics)
    _write(best / METRICS, json.dumps(metrics, indent=1, ensure_ascii=False))
    items = read_all(task, dev)
    if items:
        model = load_model(best, task).to(default_device()).eval()
        for name, table in task.inspect(model, items).items():
            pq.write_table(table, best / EVALUATION / f"{name}.parquet")
    result = {
        "checkpoint": str(best),
        "metrics": metrics,
        "steps": state.step,
        "seconds": round(state.seconds, 1),
    }
    _write(out / RESULT, json.dumps(result, indent=1, ensure_ascii=False))
    return result


def _clear(out: Path) -> None:
    """Remove what a run writes, and nothing else that may lie in the folder."""
    for name in (LAST, BEST, "tensorboard", "ray", RESULT, LOG, RECIPE, MLFLOW_RUN):
        for path in (out / name, *out.glob(f".{name}.*")):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
