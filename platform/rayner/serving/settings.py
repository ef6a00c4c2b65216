"""The YAML file of `rayner serve`: which models answer, and how much of the machine they may use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from rayner.config import Settings
from rayner.config.reading import parse_settings as parse_settings
from rayner.config.reading import read_yaml
from rayner.data.batches import TOKENS_PER_BATCH
from rayner.errors import RecipeError


class ServedBaseSettings(Settings):
    """An index and the standardizer that made its vectors; with `types`, only these are linked to it.

    It says what a pipeline file cannot: the name by which requests ask for it, and whether it answers alone.
    """

    index: Annotated[str, Field(min_length=1)]
    standardizer: Annotated[str, Field(min_length=1)]
    types: tuple[str, ...] = ()


class ModelSettings(Settings):
    """What answers. This is Ray Serve's `user_config`: a change of it swaps models in running replicas.

    `checkpoint` is what reads texts: a recognizer's or a tagger's folder, or a pipeline file. `revision` is
    any text; another one makes the replicas look at the same files and folders again.
    """

    checkpoint: str | None = None
    knowledge_bases: Mapping[str, ServedBaseSettings] = {}
    revision: str = ""

    @model_validator(mode="after")
    def _something(self) -> ModelSettings:
        if self.checkpoint is None and not self.knowledge_bases:
            raise ValueError("names neither a checkpoint nor a knowledge base")
        return self


class LimitSettings(Settings):
    """What a request may hold; more is answered with 413. Characters are Unicode code points."""

    body_bytes: PositiveInt = 8 << 20
    documents: PositiveInt = 256
    characters: PositiveInt = 1_000_000
    types: PositiveInt = 1000
    mentions: PositiveInt = 1000


class BatchingSettings(Settings):
    """Padded tokens a batch, and for how many sets of types a replica keeps the vectors."""

    tokens: PositiveInt = TOKENS_PER_BATCH
    type_sets: PositiveInt = 64


class ReplicaSettings(Settings):
    """Replicas and what each may use; `target` is how many requests a replica should have at once.

    `surge` is the percentage of replicas that a rolling update may start before it stops old ones: 0 where
    there is no room for another one (a single GPU). `drain` is how long a replica that is to stop may work
    on. All times are in seconds.
    """

    min: Annotated[int, Field(ge=0)] = 1
    max: PositiveInt = 1
    target: PositiveFloat = 4
    cpus: NonNegativeFloat = 1
    gpus: NonNegativeFloat = 0
    threads: PositiveInt | None = None
    accelerator_type: str | None = None
    ongoing: PositiveInt = 64
    queued: Annotated[int, Field(ge=-1)] = 256
    retry_after: NonNegativeFloat = 1
    upscale_delay: NonNegativeFloat = 10
    downscale_delay: NonNegativeFloat = 300
    health_period: PositiveFloat = 10
    health_timeout: PositiveFloat = 30
    stuck_after: PositiveFloat = 120
    drain: NonNegativeFloat = 60
    surge: Annotated[int, Field(ge=0, le=100)] = 50

    @model_validator(mode="after")
    def _range(self) -> ReplicaSettings:
        if self.max < self.min:
            raise ValueError(f"max {self.max} is below min {self.min}")
        return self


class HttpSettings(Settings):
    """Where the proxy listens: on this machine alone unless `host` says otherwise."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    timeout: PositiveFloat | None = 120


class ApplicationSettings(Settings):
    """What an application is built with. A change of it replaces the replicas, some at a time."""

    limits: LimitSettings = LimitSettings()
    batching: BatchingSettings = BatchingSettings()
    replicas: ReplicaSettings = ReplicaSettings()
    require_key: bool = False
    page: bool = True


class ServeSettings(ApplicationSettings, ModelSettings):
    """The whole file."""

    http: HttpSettings = HttpSettings()

    def models(self) -> ModelSettings:
        """The part that can change under the replicas."""
        return ModelSettings.model_validate(self.model_dump(include=set(ModelSettings.model_fields)))

    def application(self) -> ApplicationSettings:
        """The part that replicas are built with."""
        return ApplicationSettings.model_validate(
            self.model_dump(include=set(ApplicationSettings.model_fields))
        )


def load_serve_settings(path: Path) -> ServeSettings:
    """The settings in a YAML file; its folders count from the working directory.

    Raises:
        RecipeError: the file, the key that is wrong and the nearest known one.
    """
    values = read_yaml(path, "a configuration file of `rayner serve`")
    if not isinstance(values, dict):
        raise RecipeError(str(path), "not a mapping of keys to values", "write `checkpoint: RUN/best`")
    return parse_settings(ServeSettings, values, str(path))
