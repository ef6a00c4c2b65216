"""A sweep in TensorBoard (its HParams page) and in MLflow (a run above those of the trials)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe
from rayner.runtime.sweeps.settings import SECONDS
from rayner.runtime.sweeps.trials import Plan, Trial
from rayner.runtime.tracking import MLFLOW_PARENT, MLFLOW_RUN, wants_mlflow

TENSORBOARD = "tensorboard"


def write_hparams(plan: Plan, trials: Sequence[Trial]) -> None:
    """Write `OUT/tensorboard`: for each trial its settings and the curves of the objectives over epochs."""
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams

    folder = plan.out / TENSORBOARD
    shutil.rmtree(folder, ignore_errors=True)
    names = list(dict.fromkeys((*(o.metric for o in plan.settings.objectives), SECONDS)))
    for trial in trials:
        if not trial.reports:
            continue
        with SummaryWriter(str(folder / f"{trial.number:03d}-{trial.key}")) as writer:
            settings = {key: _plain(value) for key, value in trial.settings.items()}
            tags = {f"sweep/{name}": trial.last[name] for name in names}
            for summary in hparams(settings | {"state": trial.state}, tags):
                assert writer.file_writer is not None
                writer.file_writer.add_summary(summary)
            for report in trial.reports:
                for name in names:
                    writer.add_scalar(f"sweep/{name}", report[name], int(report["epochs"]))


def begin_mlflow(recipe: BaseRecipe, out: Path, parameters: Mapping[str, Any]) -> str | None:
    """The id of the sweep's run in MLflow, the same one when the sweep goes on; None without MLflow.

    Raises:
        RecipeError: the recipe asks for MLflow, which is not installed.
    """
    if not wants_mlflow(recipe):
        return None
    known = out / MLFLOW_RUN
    if known.exists():
        return known.read_text().strip()
    import mlflow

    mlflow.set_experiment(recipe.tracking.experiment)
    with mlflow.start_run(run_name=out.resolve().name) as run:
        mlflow.log_params({key: str(value)[:500] for key, value in parameters.items()})
    known.write_text(run.info.run_id)
    return run.info.run_id


def note_parent(plan: Plan, run: Path) -> None:
    """Let the run in a folder be a child of the sweep's run in MLflow, if there is one."""
    if plan.mlflow_parent is not None:
        run.mkdir(parents=True, exist_ok=True)
        (run / MLFLOW_PARENT).write_text(plan.mlflow_parent)


def end_mlflow(run_id: str | None, metrics: Mapping[str, float], files: Sequence[Path]) -> None:
    """Add the winner's scores and the sweep's files to its run."""
    if run_id is None:
        return
    import mlflow

    with mlflow.start_run(run_id=run_id):
        mlflow.log_metrics(dict(metrics))
        for file in files:
            mlflow.log_artifact(str(file))


def _plain(value: Any) -> bool | int | float | str:
    return value if isinstance(value, (bool, int, float, str)) else str(value)
