"""What goes over HTTP. Offsets count Unicode code points of the text that was sent, half-open."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from rayner.config import TypeSettings
from rayner.config.documents import named
from rayner.tasks.recognizer.types import Threshold


def _encodable(text: str) -> str:
    """JSON can spell half of a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half a surrogate pair at character {error.start}, which is no character") from None
    return text


NewTypes = Annotated[
    dict[str, Threshold],
    Field(
        description="types of the request that the model did not learn, each with how its threshold is had: "
        "`dynamic`, as for all types of the model, or the `mean` of those that were learned or tuned"
    ),
]
ModelName = Annotated[
    Annotated[str, AfterValidator(_encodable)] | None,
    Field(description="one of the service's named models; by default its `checkpoint`, or the only model"),
]
Point = Literal["accuracy", "high_precision", "high_recall", "never"]
Share = Annotated[
    Annotated[float, Field(strict=True, ge=0, le=1)] | None,
    Field(description="of mentions without an entity; by default as the pipeline file or the recipe says"),
]
Text = Annotated[str, AfterValidator(_encodable)]
TopK = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=100)] | None,
    Field(description="candidates a mention; by default as the pipeline file says, or 5"),
]


T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]
"""A list of which the first wrong item is told: a body may hold millions of them."""
_MOST_UNKNOWN = 5


class Request(BaseModel):
    """A request body that knows its keys."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_unknown(cls, values: Any) -> Any:
        """Of many unknown fields the first ones, for the same reason."""
        if isinstance(values, dict) and len(values) > len(cls.model_fields) + _MOST_UNKNOWN:
            unknown = [key for key in values if key not in cls.model_fields][:_MOST_UNKNOWN]
            return {key: values[key] for key in (*cls.model_fields, *unknown) if key in values}
        return values


class Reply(BaseModel):
    """A reply body."""

    model_config = ConfigDict(frozen=True)


class TextIn(Request):
    """A text to read; without an id, its place in the request is its id."""

    text: Text
    document_id: Text | None = None


class TypeIn(Request):
    """A type to look for. One that the model learned needs only its name; another needs a description."""

    name: Annotated[Text, Field(min_length=1), AfterValidator(named)]
    description: Text | None = None
    descriptions: Items[Text] = []
    keyword: Text | None = None
    prototypes: Items[Text] = []

    def settings(self) -> TypeSettings:
        """As a recipe has it."""
        return TypeSettings.model_validate(self.model_dump())


TypesIn = Annotated[
    Annotated[Items[TypeIn], Field(min_length=1)] | None,
    Field(description="at least one; by default those of the pipeline file, or all learned"),
]


class RecognizeRequest(Request):
    """Texts, and what to look for; what is left out is as the pipeline file says or as trained."""

    documents: Items[TextIn]
    model: ModelName = None
    types: TypesIn = None
    overlap: Annotated[
        Literal["flat", "nested"] | None, Field(description="whether mentions may lie within each other")
    ] = None
    shift: Annotated[
        Annotated[float, Field(strict=True, ge=-1000, le=1000)] | None,
        Field(description="added to every threshold: below 0 finds more"),
    ] = None
    contexts: Annotated[
        bool, Field(strict=True, description="reply with the contexts that each sentence was read with")
    ] = False


class StandardizeRequest(Request):
    """Mentions, each a string, and the knowledge base to look them up in."""

    mentions: Items[Text]
    knowledge_base: Annotated[Text | None, Field(description="not needed where there is only one")] = None
    top_k: TopK = None
    operating_point: Annotated[
        Point | None,
        Field(description="how sure an entity must be, else NIL; `never` gives the first candidate always"),
    ] = None
    nil_share: Share = None


class AnnotateRequest(RecognizeRequest):
    """Texts whose mentions are to be found and linked."""

    knowledge_base: Annotated[
        Text | None,
        Field(description="by default those of the pipeline file, or all that the service links types to"),
    ] = None
    top_k: TopK = None
    operating_point: Point | None = None
    nil_share: Share = None


class KnowledgeBaseVersions(Reply):
    """The index and the standardizer that made an answer."""

    index: str
    standardizer: str


class Versions(Reply):
    """Everything that made an answer."""

    contexts: str | None = None
    recognizer: str | None = None
    typer: str | None = None
    entities: str | None = None
    knowledge_bases: dict[str, KnowledgeBaseVersions] = {}


class CandidateOut(Reply):
    """An entity that a mention may be; `matched` is the one of its names that the mention is most like.

    `score` is what the similarities of vectors and n-grams make together, as the checkpoint learned: it ranks
    candidates, may lie outside 0 to 1, and is no probability.
    """

    entity_id: str
    name: str
    matched: str
    score: float


class FineTypeOut(Reply):
    """A fine type of a mention, and how probable it is."""

    name: str
    score: float


class MentionOut(Reply):
    """A mention found in a text. `score` lies between 0 and 1. Of a recognizer: where it is calibrated, how
    probable it is that the mention is right, else the logistic function of the margin; of a tagger: the mean
    probability of the labels of its words. `margin` is how far the model's
    own score lies over the threshold, null for a model without thresholds. `uncertainty` tells what was
    seldom seen, null for a model that does not know. `types` are fine types, best first, empty without a
    stage that finds them."""

    start: int
    end: int
    text: str
    type: str
    score: float | None
    margin: float | None
    uncertainty: float | None
    types: list[FineTypeOut]


class LinkedMentionOut(MentionOut):
    """A mention with its entity and the entity's name; null is NIL, or a type that is linked to no knowledge
    base. `probability`: that the first candidate is right."""

    entity_id: str | None
    name: str | None
    probability: float | None
    candidates: list[CandidateOut]


class ContextOut(Reply):
    """A sentence that was read with another one, before or after it: how relevant it is (`score`), and where
    it is in the text."""

    text: str
    score: float | None
    before: bool
    start: int | None
    end: int | None


class SentenceOut(Reply):
    """A sentence of a text, and the contexts that were chosen for it."""

    start: int
    end: int
    contexts: list[ContextOut]


class DocumentOut(Reply):
    """The mentions of a text, by start, and how many windows the first stage read. `sentences` where contexts
    were asked for and the model reads any."""

    document_id: str
    windows: int
    mentions: list[MentionOut]
    sentences: list[SentenceOut] | None = None


class LinkedDocumentOut(DocumentOut):
    """The linked mentions of a text."""

    mentions: list[LinkedMentionOut]  # pyright: ignore[reportIncompatibleVariableOverride]


class RecognizeReply(Reply):
    """The documents in the order of the request."""

    documents: list[DocumentOut]
    new_types: NewTypes
    versions: Versions


class AnnotateReply(Reply):
    """The documents in the order of the request."""

    documents: list[LinkedDocumentOut]
    new_types: NewTypes
    versions: Versions


class AnswerOut(Reply):
    """The entity of a mention; null is NIL, ids joined by `|` are those of a mention of several entities.
    `matched`: the one of its names that the mention is most like.
    `probability`: that the first candidate is right."""

    mention: str
    entity_id: str | None
    name: str | None
    matched: str | None
    score: float | None
    margin: float | None
    probability: float | None
    reason: str | None
    candidates: list[CandidateOut]


class StandardizeReply(Reply):
    """The answers in the order of the request."""

    answers: list[AnswerOut]
    versions: Versions


class Health(Reply):
    """Whether the service lives, or is ready."""

    status: Literal["ok"]


class Problem(Reply):
    """What is wrong with one field of a request."""

    field: str
    message: str
    hint: str = ""


class Problems(Reply):
    """The body of every error that the service itself answers with."""

    detail: list[Problem]
