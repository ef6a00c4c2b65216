"""What `GET /v1/models` says of the models and knowledge bases that answer."""

from __future__ import annotations

from rayner.serving.schemas import Point, Reply


class TypeOut(Reply):
    """A type that a model learned."""

    name: str
    description: str | None


class StageOut(Reply):
    """A stage of the pipeline that answers: contexts, mentions, types or entities."""

    stage: str
    task: str
    version: str


class RecognizerOut(Reply):
    """The recognizer that answers now; a window holds `window_length` sub-words of a text. `options`: what a
    request may ask of it, of `types`, `shift` and `overlap`; `shift`: that of a request without one."""

    version: str
    task: str
    types: list[TypeOut]
    options: list[str]
    shift: float | None
    window_length: int
    window_overlap: int


class TyperOut(Reply):
    """The typer that answers now, and the fine types that it looks for: `/v1/type` may ask for some by
    their names. `shift`: that of a request without one."""

    version: str
    task: str
    types: list[str]
    shift: float | None


class KnowledgeBaseOut(Reply):
    """A knowledge base to link to; `types` are the types whose mentions are linked to it, empty for all.
    `top_k` and `operating_point`: those of a request without."""

    index: str
    standardizer: str
    entities: int
    types: list[str]
    operating_points: list[str]
    top_k: int
    operating_point: Point


class ModelOut(Reply):
    """A model that reads texts. `linked`: the knowledge bases of `/v1/annotate` where a request names none;
    where it is empty, it must name one."""

    stages: list[StageOut]
    recognizer: RecognizerOut | None
    typer: TyperOut | None
    linked: list[str]


class ModelsReply(ModelOut):
    """What answers now: the model of requests that name none (without stages where they must), the `models`
    by name, and why the last change of models did not come in, if it did not."""

    models: dict[str, ModelOut]
    knowledge_bases: dict[str, KnowledgeBaseOut]
    failed_change: str | None
