"""What `GET /v1/models` says of the models and knowledge bases that answer."""

from __future__ import annotations

from rayner.serving.schemas import Point, Reply


class TypeOut(Reply):
    """A type that a model learned."""

    name: str
    """By which requests ask for it."""
    description: str | None
    """What the model read of it; null where it has none."""


class StageOut(Reply):
    """A stage of the pipeline that answers."""

    stage: str
    """What it does: `contexts`, `mentions`, `types` or `entities`."""
    task: str
    """The system."""
    version: str
    """Of its checkpoint."""


class RecognizerOut(Reply):
    """What finds mentions now."""

    version: str
    """Of its checkpoint."""
    task: str
    """The system."""
    types: list[TypeOut]
    """Those that it learned."""
    options: list[str]
    """What a request may ask of it, of `types`, `shift` and `overlap`."""
    shift: float | None
    """That of a request without one."""
    window_length: int | None
    """Sub-words that a window holds; null where the recipe does not say."""
    window_overlap: int | None
    """Sub-words that a window shares with the next one; null where the recipe does not say."""


class TyperOut(Reply):
    """What gives fine types now."""

    version: str
    """Of its checkpoint."""
    task: str
    """The system."""
    types: list[str]
    """Those that it gives; `/v1/type` may ask for some by their names."""
    shift: float | None
    """That of a request without one."""


class KnowledgeBaseOut(Reply):
    """A knowledge base to link to."""

    index: str
    """Its version."""
    standardizer: str
    """The version of the checkpoint that answers from it."""
    entities: int
    """How many it has."""
    types: list[str]
    """Whose mentions are linked to it; empty for all."""
    operating_points: list[str]
    """Those that requests may name, empty without a calibration of NIL; `never` is taken beside them,
    always."""
    top_k: int
    """Candidates of a request that does not say."""
    operating_point: Point
    """That of a request without one."""


class ModelOut(Reply):
    """A model that reads texts."""

    stages: list[StageOut]
    """In the order in which they run."""
    recognizer: RecognizerOut | None
    """What finds mentions; null without such a stage."""
    typer: TyperOut | None
    """What gives fine types; null without such a stage."""
    linked: list[str]
    """The knowledge bases of `/v1/annotate` where a request names none; where it is empty, it must name
    one."""


class ModelsReply(ModelOut):
    """What answers now: the model of requests that name none (without stages where they must), and the
    others."""

    models: dict[str, ModelOut]
    """Those with a name of their own."""
    knowledge_bases: dict[str, KnowledgeBaseOut]
    """By name."""
    failed_change: str | None
    """Why the last change that was loaded did not come in; null if it did. What `rayner serve` finds wrong
    before that, such as a path or a key, is in its log alone."""
