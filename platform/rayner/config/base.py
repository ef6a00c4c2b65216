"""What the recipes of all tasks share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

Fraction = Annotated[float, Field(ge=0, le=1)]
Dropout = Annotated[float, Field(ge=0, lt=1)]
Rate = Annotated[float, Field(gt=0)]
MOST_SEEDS = 2**63
"""A recipe's seed is below this."""
Precision = Literal["float32", "bfloat16", "float16"]
AskedPrecision = Literal["float32", "bfloat16", "float16", "auto"] | None
"""`auto`: the one that is faster here; None: what the device takes by default, float32 on a CPU, bfloat16 on
a GPU that has it."""


LEAST_OF_A_RESOURCE = 0.0001
"""The least that Ray counts of a CPU or a GPU."""


def resource_fault(cpus: float, gpus: float) -> tuple[Literal["cpus", "gpus"], str] | None:
    """Which of the resources of a process Ray refuses, and why; None where it takes them."""
    if gpus > 1 and gpus != int(gpus):
        return "gpus", f"{gpus:g} is neither whole nor below 1"
    if 0 < cpus < LEAST_OF_A_RESOURCE:
        return "cpus", f"{cpus:g} is less than Ray counts: at least {LEAST_OF_A_RESOURCE}"
    if 0 < gpus < LEAST_OF_A_RESOURCE:
        return "gpus", f"{gpus:g} is less than Ray counts: at least {LEAST_OF_A_RESOURCE}"
    return None


class Settings(BaseModel):
    """A frozen part of a recipe that knows its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    def without_effect(self) -> Mapping[str, str]:
        """The keys that other settings leave without effect, dotted, each with why."""
        return {}

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_is_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # Pydantic takes true for 1.
        if info.field_name in _numbers_of(cls):
            several = value.values() if isinstance(value, dict) else value
            for one in several if isinstance(value, (dict, list, tuple)) else [value]:
                if isinstance(one, bool):
                    raise ValueError(f"{str(one).lower()} is no number")
        return value


@cache
def _numbers_of(settings: type[BaseModel]) -> frozenset[str]:
    """The fields that hold numbers and never a boolean."""
    kinds = {name: _kinds_of(field.annotation) for name, field in settings.model_fields.items()}
    return frozenset(name for name, of in kinds.items() if of & {int, float} and not of & {bool, Any})


def _kinds_of(annotation: Any) -> set[Any]:
    inner = get_args(annotation)
    return set[Any]().union(*map(_kinds_of, inner)) if inner else {annotation}


class TrainingSettings(Settings):
    """Optimization."""

    epochs: PositiveInt = 10
    """Passes over the training data."""
    tokens_per_forward: PositiveInt | None = None
    """Splits a step into parts whose gradients are summed, to save memory: padded sub-words a part, of all
    workers together. Null: a step is one part."""
    normalization: Literal["step", "corpus"] = "step"
    """What the sums of the loss are divided by: the counts of the step, or the mean counts of steps."""
    learning_rate: Rate = 2e-4
    """The highest learning rate of the encoder."""
    head_learning_rate: Rate = 1e-3
    """The highest learning rate of what is not part of the encoder."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The learning rate of each layer of an encoder is this times that of the layer above it; its embeddings
    are below all layers. 1: all learn alike."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Of AdamW."""
    warmup: Fraction = 0.1
    """The part of all steps in which the learning rate rises; it then falls to 0."""
    clip: Rate | None = 1.0
    """The norm that gradients are clipped to; null leaves them."""
    average: Fraction | None = None
    """The decay of an exponential moving average of the weights, which is then what is evaluated and kept.
    Null: none."""
    precision: AskedPrecision = None
    """Of the products of matrices: `float32`, `bfloat16`, `float16`, or `auto`, which times a small batch
    once and keeps the faster of the first two. Null: float32 on a CPU, and bfloat16 on a GPU that has it."""
    gradient_checkpointing: bool = False
    """Computes activations again in the backward pass: less memory, for the time of
    a second forward pass."""
    train_word_embeddings: bool = True
    """Whether the encoders' embeddings of sub-words learn. They are half of a small encoder: if they stay as
    they are, a step of few tokens is faster, and the optimizer needs half the memory."""
    evaluations_per_epoch: PositiveInt = 1
    """Evaluations on dev in each epoch, at equal distances; the last at its end."""
    patience: PositiveInt | None = None
    """Stops after so many evaluations without a better score. Null: never."""
    checkpoint_every: PositiveInt = 200
    """Steps between two writes of `last/`, beside those at each epoch's end and with each better `best/`."""
    checkpoint_minutes: Annotated[float, Field(gt=0)] = 10.0
    """Minutes after which `last/` is written before its turn, at the next line of the log."""
    log_every: PositiveInt = 20
    """Steps between two lines of the log."""


class ScalingSettings(Settings):
    """Ray Train workers, and what each is given."""

    workers: Annotated[int, Field(ge=0)] = 0
    """Ray workers. 0 trains in this process. With `max_workers`, the least number."""
    max_workers: PositiveInt | None = None
    """The most workers of an elastic run, whose number changes with the cluster. Null: a fixed number."""
    resize_seconds: PositiveInt = 60
    """Seconds between two looks whether the cluster has room for more workers of an elastic run."""
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0
    """GPUs of a worker. rayner has not run on a GPU yet."""
    cpus_per_worker: Annotated[float, Field(gt=0)] = 1
    """CPUs of a worker. A job without workers asks the cluster for what one worker has."""
    memory_per_worker: Annotated[float, Field(gt=0)] | None = None
    """GiB of memory that Ray reserves for a worker. Null: none."""
    threads_per_worker: PositiveInt | None = None
    """Threads of torch in a worker, or in this process where there is none. Null: what Ray or OMP_NUM_THREADS
    sets, else as many as there are cores, or a container's quota of CPUs allows."""
    accelerator_type: str | None = None
    """The GPU that a worker needs, by Ray's name (`A10G`). Null: any."""
    max_failures: Annotated[int, Field(ge=-1)] = 3
    """Restarts after a lost worker; -1 is no limit."""
    max_preemption_failures: Annotated[int, Field(ge=-1)] = -1
    """Restarts after a worker whose node the cloud took back; -1 is no limit."""
    collective_timeout_seconds: PositiveInt = 1800
    """A worker that waits for the others longer than this fails."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        return {} if self.max_workers else {"resize_seconds": "scaling.max_workers is not set"}

    @model_validator(mode="after")
    def _range(self) -> ScalingSettings:
        if self.max_workers is not None and self.max_workers < max(self.workers, 1):
            raise ValueError(f"max_workers {self.max_workers} is below workers {self.workers}")
        if fault := resource_fault(self.cpus_per_worker, self.gpus_per_worker):
            raise ValueError(f"{fault[0]}_per_worker {fault[1]}")
        return self


class TrackingSettings(Settings):
    """MLflow, beside TensorBoard and the run's own log."""

    mlflow: bool = False
    """Track the run with MLflow; done too where MLFLOW_TRACKING_URI is set."""
    experiment: str = "rayner"
    """The name of MLflow's experiment."""


class BaseRecipe(Settings):
    """What every run has. `task` names the task; each task's recipe fixes it."""

    task: str
    """The task: which system is trained."""
    seed: Annotated[int, Field(ge=0, lt=MOST_SEEDS)] = 1
    """Of all that is drawn: initial weights, order, dropout, splits."""
    encoder: str = "all-MiniLM-L6-v2"
    """A Hugging Face id, a local folder, the name of the encoder that the extra `offline` brings, or a
    checkpoint of rayner, whose encoder is taken. `random:32x2` is one of random weights, for tests."""
    training: TrainingSettings = TrainingSettings()
    scaling: ScalingSettings = ScalingSettings()
    tracking: TrackingSettings = TrackingSettings()
