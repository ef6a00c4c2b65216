"""The YAML file of `rayner serve`: which models answer, and how much of the machine they may use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from rayner.config import Settings
from rayner.config.base import AskedPrecision, resource_fault
from rayner.config.recipe_files import parse_settings as parse_settings
from rayner.config.recipe_files import read_yaml
from rayner.errors import RecipeError

ModelName = Annotated[str, Field(min_length=1, max_length=100)]
"""The smallest part of a CPU or a GPU that Ray counts."""


class ServedBaseSettings(Settings):
    """An index and the standardizer that made its vectors; with `types`, only these are linked to it.

    It says what a pipeline file cannot: the name by which requests ask for it, and whether it answers alone.
    """

    index: Annotated[str, Field(min_length=1)]
    """The folder of `rayner index build`."""
    standardizer: Annotated[str, Field(min_length=1)]
    """The checkpoint that built it, or a pipeline file, of which only that checkpoint is taken."""
    types: tuple[str, ...] = ()
    """The types whose mentions are linked to it; empty is all."""


class ModelSettings(Settings):
    """What answers. This is Ray Serve's `user_config`: a change of it swaps models in running replicas."""

    checkpoint: str | None = None
    """What reads texts: a recognizer's, a tagger's or a typer's folder, or a pipeline file."""
    models: Mapping[ModelName, Annotated[str, Field(min_length=1)]] = {}
    """Further ones, by the name that requests use."""
    precision: AskedPrecision = None
    """What encoders compute in. Null: float32 on a CPU, and bfloat16 on a GPU that has it; with `auto` each
    replica times a small batch when it starts. Versions in answers name all but float32."""
    knowledge_bases: Mapping[str, ServedBaseSettings] = {}
    """Further knowledge bases, by the name that requests use."""
    revision: str = ""
    """Any text; another one makes the replicas look at the same files and folders again."""
    refused: str | None = None
    """Why later settings did not come in: `rayner serve` says so where it has gone back to these."""

    @model_validator(mode="after")
    def _something(self) -> ModelSettings:
        if not self.checkpoints() and not self.knowledge_bases:
            raise ValueError("names neither a checkpoint nor a model nor a knowledge base")
        return self

    def checkpoints(self) -> dict[str, str]:
        """All that reads texts, by name; that of `checkpoint` is empty."""
        return {**({} if self.checkpoint is None else {"": self.checkpoint}), **self.models}

    def rooted(self, folder: Path) -> Self:
        """The settings with paths that count from the folder as absolute ones."""

        def at(path: str) -> str:
            return path if "://" in path else str(folder / path)

        bases = {
            name: base.model_copy(update={"index": at(base.index), "standardizer": at(base.standardizer)})
            for name, base in self.knowledge_bases.items()
        }
        models = {name: at(path) for name, path in self.models.items()}
        checkpoint = None if self.checkpoint is None else at(self.checkpoint)
        return self.model_copy(update={"checkpoint": checkpoint, "models": models, "knowledge_bases": bases})


class LimitSettings(Settings):
    """What a request may hold; more is answered with 413."""

    body_bytes: PositiveInt = 8 << 20
    """Bytes of a request."""
    documents: PositiveInt = 256
    """Documents of a request."""
    characters: PositiveInt = 1_000_000
    """Characters of a request, in Unicode code points: of texts and what describes types, or of mentions."""
    types: PositiveInt = 1000
    """Types of a request, with their further descriptions and their prototypes."""
    type_tokens: PositiveInt = 32_768
    """Sub-words of what describes the types of a request, learned ones too: the model reads them in one
    piece, which must not take as long as `replicas.stuck_after`."""
    mentions: PositiveInt = 1000
    """Mentions of a request."""
    candidates: PositiveInt = 100_000
    """Candidates of a request: the mentions that are linked times `top_k`."""
    found: PositiveInt = 50_000
    """Spans above their thresholds in the texts of a request, before overlapping ones are left out."""


class BatchingSettings(Settings):
    """How texts are batched."""

    tokens: PositiveInt | None = None
    """Padded tokens a batch. Null: what suits the device."""
    type_sets: PositiveInt = 64
    """For how many sets of types a replica keeps the vectors."""


class StageReplicas(Settings):
    """Replicas of a stage, and what each may use."""

    min: Annotated[int, Field(ge=0)] = 1
    """The fewest replicas."""
    max: PositiveInt = 1
    """The most replicas."""
    target: PositiveFloat = 4
    """Requests that a replica should have at once; beyond it, replicas are added."""
    cpus: NonNegativeFloat = 1
    """CPUs of a replica."""
    gpus: NonNegativeFloat = 0
    """GPUs of a replica, whole or a part of one that several replicas share (`0.25`: four). The parts are not
    kept apart: each replica must find room in the GPU's memory. Serving has not run on a GPU yet."""
    memory: Annotated[NonNegativeFloat, Field(allow_inf_nan=False)] | None = None
    """GiB of memory of a replica, by which Ray places it; 0 for none. Null: what the files of its checkpoints
    and indexes make probable when `rayner serve` starts, or `serve deploy` with the models in `args`; none
    with models in `user_config`."""
    threads: PositiveInt | None = None
    """Threads of torch in a replica. Null: torch's own choice."""
    accelerator_type: str | None = None
    """The GPU that a replica needs, by Ray's name."""

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        if fault := resource_fault(self.cpus, self.gpus):
            raise ValueError(" ".join(fault))
        return self


class ReplicaSettings(StageReplicas):
    """Replicas that answer over HTTP, and what each may use."""

    ongoing: PositiveInt = 64
    """Requests that a replica takes at once."""
    queued: Annotated[int, Field(ge=-1)] = 256
    """Requests that wait at each proxy beyond that, or are on their way to a replica, 1 at least; -1 is no
    limit."""
    retry_after: Annotated[NonNegativeFloat, Field(allow_inf_nan=False)] = 1
    """What `Retry-After` says, in seconds."""
    upscale_delay: NonNegativeFloat = 10
    """Seconds before replicas are added."""
    downscale_delay: NonNegativeFloat = 300
    """Seconds before replicas are taken away."""
    health_period: PositiveFloat = 10
    """Seconds between two checks of a replica."""
    health_timeout: PositiveFloat = 30
    """Seconds that a check may take."""
    stuck_after: PositiveFloat = 120
    """Seconds on one batch, or on the vectors of new types, after which a replica is replaced."""
    drain: NonNegativeFloat = 60
    """Seconds that a replica that is to stop may work on."""
    surge: Annotated[int, Field(ge=0, le=100)] = 50
    """The percentage of replicas that a rolling update may start before it stops old ones: 0 where there is
    no room for another one (a single GPU)."""

    @model_validator(mode="after")
    def _some_wait(self) -> Self:
        if self.queued == 0:
            raise ValueError("queued 0 would let no request wait: 1 at least, or -1 for no limit")
        return self


class HttpSettings(Settings):
    """Where the proxy listens: on this machine alone unless `host` says otherwise."""

    host: str = "127.0.0.1"
    """Where the proxy listens; the default is this machine alone."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    """The port."""
    timeout: PositiveFloat | None = 120
    """Seconds that a request may take. Null: no limit."""


class ApplicationSettings(Settings):
    """What an application is built with. A change of it replaces the replicas, some at a time."""

    limits: LimitSettings = LimitSettings()
    batching: BatchingSettings = BatchingSettings()
    replicas: ReplicaSettings = ReplicaSettings()
    stages: Mapping[str, StageReplicas] = {}
    """A deployment for each stage of the pipeline file, with replicas of its own; stages that are not named
    have the defaults. Empty: each replica holds all stages."""
    require_key: bool = False
    """Whether a replica without keys refuses to start."""
    page: bool = True
    """Whether there is a page at `/`."""

    @model_validator(mode="after")
    def _held(self) -> Self:
        if self.stages and self.replicas.gpus:
            raise ValueError("replicas.gpus are of those that hold no model where `stages` are named")
        return self

    def of_stage(self, name: str) -> ReplicaSettings:
        """The replicas of a stage. What waits for them was let in already, and is not turned away."""
        own = self.stages.get(name, StageReplicas())
        return ReplicaSettings(**{**self.replicas.model_dump(), **own.model_dump(), "queued": -1})


class ServeSettings(ApplicationSettings, ModelSettings):
    """The whole file."""

    http: HttpSettings = HttpSettings()

    def answering(self) -> ModelSettings:
        """The part that can change under the replicas."""
        return ModelSettings.model_validate(self.model_dump(include=set(ModelSettings.model_fields)))

    def application(self) -> ApplicationSettings:
        """The part that replicas are built with."""
        return ApplicationSettings.model_validate(
            self.model_dump(include=set(ApplicationSettings.model_fields))
        )


_OF_RAY = ("num_replicas", "autoscaling_config")


def load_serve_settings(path: Path) -> ServeSettings:
    """The settings in a YAML file; its folders count from the working directory.

    Raises:
        RecipeError: the file, the key that is wrong and the nearest known one.
    """
    values = read_yaml(path, "a configuration file of `rayner serve`")
    if not isinstance(values, dict):
        raise RecipeError(str(path), "not a mapping of keys to values", "write `checkpoint: RUN/best`")
    if "applications" in values:
        what = "is a configuration of Ray Serve itself, not of `rayner serve`"
        raise RecipeError(str(path), what, "deploy it to a cluster with `serve deploy`, or name another file")
    replicas = values.get("replicas")
    for place, keys in (("", values), ("replicas.", replicas if isinstance(replicas, dict) else {})):
        if given := [key for key in _OF_RAY if key in keys]:
            hint = "write `replicas: {min: 1, max: 4}`, with min and max alike for a fixed number"
            raise RecipeError(f"{path}: {place}{given[0]}", "is a key of Ray Serve's own files", hint)
    return parse_settings(ServeSettings, values, str(path))
