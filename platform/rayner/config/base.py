"""What the recipes of all tasks share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]


class Settings(BaseModel):
    """A frozen part of a recipe that knows its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TrainingSettings(Settings):
    """Optimization.

    `tokens_per_forward` splits a step into parts whose gradients are summed; it counts padded sub-words, of
    all workers together. `average` is the decay of an exponential moving average of the weights, which is
    what is evaluated and kept.
    """

    epochs: PositiveInt = 10
    tokens_per_forward: PositiveInt | None = None
    normalization: Literal["step", "corpus"] = "step"
    learning_rate: Rate = 2e-4
    head_learning_rate: Rate = 1e-3
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    warmup: Fraction = 0.1
    clip: Rate | None = 1.0
    average: Fraction | None = None
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    gradient_checkpointing: bool = False
    evaluations_per_epoch: PositiveInt = 1
    patience: PositiveInt | None = None
    checkpoint_every: PositiveInt = 200
    log_every: PositiveInt = 20


class ScalingSettings(Settings):
    """Ray Train workers. 0 trains in this process; with `max_workers` their number is elastic.

    Every `resize_seconds` an elastic run looks whether the cluster has room for more workers. A job without
    workers asks the cluster for what one worker has. `memory_per_worker` is in GiB.

    A lost worker counts towards `max_failures`, one whose node the cloud takes back towards
    `max_preemption_failures`; -1 is no limit. A worker that waits for the others longer than
    `collective_timeout_seconds` fails.
    """

    workers: Annotated[int, Field(ge=0)] = 0
    max_workers: PositiveInt | None = None
    resize_seconds: PositiveInt = 60
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0
    cpus_per_worker: Annotated[float, Field(gt=0)] = 1
    memory_per_worker: Annotated[float, Field(gt=0)] | None = None
    threads_per_worker: PositiveInt | None = None
    accelerator_type: str | None = None
    max_failures: Annotated[int, Field(ge=-1)] = 3
    max_preemption_failures: Annotated[int, Field(ge=-1)] = -1
    collective_timeout_seconds: PositiveInt = 1800

    @model_validator(mode="after")
    def _range(self) -> ScalingSettings:
        if self.max_workers is not None and self.max_workers < max(self.workers, 1):
            raise ValueError(f"max_workers {self.max_workers} is below workers {self.workers}")
        return self


class TrackingSettings(Settings):
    """MLflow, beside TensorBoard and the run's own log. It is also used where MLFLOW_TRACKING_URI is set."""

    mlflow: bool = False
    experiment: str = "rayner"


class BaseRecipe(Settings):
    """What every run has. `task` names the task; each task's recipe fixes it."""

    task: str
    seed: int = 1
    encoder: str = "all-MiniLM-L6-v2"
    training: TrainingSettings = TrainingSettings()
    scaling: ScalingSettings = ScalingSettings()
    tracking: TrackingSettings = TrackingSettings()
