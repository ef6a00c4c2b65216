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
        description="Types of the request that the model did not learn, each with how its threshold is had: "
        "`dynamic`, as for all types of the model, or the `mean` of those that were learned or tuned."
    ),
]
ModelName = Annotated[
    Annotated[str, AfterValidator(_encodable)] | None,
    Field(description="One of the service's named models; by default its `checkpoint`, or the only model."),
]
Point = Literal["accuracy", "high_precision", "high_recall", "never"]
AskedPoint = Annotated[
    Point | None,
    Field(description="How sure an entity must be, else NIL; `never` gives the first candidate always."),
]
Share = Annotated[
    Annotated[float, Field(strict=True, ge=0, le=1)] | None,
    Field(description="Of mentions without an entity; by default as the pipeline file or the recipe says."),
]
Text = Annotated[str, AfterValidator(_encodable)]
TopK = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=100)] | None,
    Field(description="Candidates a mention; by default as the pipeline file says, or 5."),
]


T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]
"""A list of which the first wrong item is told: a body may hold millions of them."""
_MOST_UNKNOWN = 5


class Request(BaseModel):
    """A request body that knows its keys."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

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

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class TextIn(Request):
    """A text to read."""

    text: Text
    """What is read."""
    document_id: Text | None = None
    """By default the place in the request, from 0, as text."""


class TypeIn(Request):
    """A type to look for. One that the model learned needs only its name; another needs a description."""

    name: Annotated[Text, Field(min_length=1), AfterValidator(named)]
    """The label that mentions get."""
    description: Text | None = None
    """What the type means, as an annotator would be told."""
    descriptions: Items[Text] = []
    """Further descriptions."""
    keyword: Text | None = None
    """A word for the type, for a model with `model.type_encoding: keyword`."""
    prototypes: Items[Text] = []
    """Sentences with their mention in [[ ]], for a model with `model.type_encoding: prototype`."""

    def settings(self) -> TypeSettings:
        """As a recipe has it."""
        return TypeSettings.model_validate(self.model_dump())


TypesIn = Annotated[
    Annotated[Items[TypeIn], Field(min_length=1)] | None,
    Field(description="At least one; by default those of the pipeline file, or all learned."),
]


class RecognizeRequest(Request):
    """Texts, and what to look for; what is left out is as the pipeline file says or as trained."""

    documents: Items[TextIn]
    """The texts."""
    model: ModelName = None
    types: TypesIn = None
    overlap: Literal["flat", "nested"] | None = None
    """Whether mentions may lie within each other."""
    shift: Annotated[float, Field(strict=True, ge=-1000, le=1000)] | None = None
    """Added to every threshold: below 0 finds more."""
    contexts: Annotated[bool, Field(strict=True)] = False
    """Reply with the contexts that were chosen for each sentence."""


class StandardizeRequest(Request):
    """Mentions, each a string, and the knowledge base to look them up in."""

    mentions: Items[Text]
    """The names to look up, as people write them."""
    knowledge_base: Text | None = None
    """Not needed where there is only one."""
    top_k: TopK = None
    operating_point: AskedPoint = None
    nil_share: Share = None


class AnnotateRequest(RecognizeRequest):
    """Texts whose mentions are to be found and linked."""

    knowledge_base: Text | None = None
    """By default those of the pipeline file, or all that the service links types to."""
    top_k: TopK = None
    operating_point: AskedPoint = None
    nil_share: Share = None


class KnowledgeBaseVersions(Reply):
    """The index and the standardizer that made an answer."""

    index: str
    """Its version."""
    standardizer: str
    """The version of the checkpoint that answers from it."""


class Versions(Reply):
    """Everything that made an answer."""

    contexts: str | None = None
    """Of the ranker that chose contexts; null without one."""
    recognizer: str | None = None
    """Of what found the mentions."""
    typer: str | None = None
    """Of what gave fine types."""
    entities: str | None = None
    """Of a stage of the pipeline file that links, but is no standardizer: those are in `knowledge_bases`."""
    knowledge_bases: dict[str, KnowledgeBaseVersions] = {}
    """By name, of those that were linked to."""


class CandidateOut(Reply):
    """An entity that a mention may be."""

    entity_id: str
    """Its id in the knowledge base."""
    name: str
    """Its name there."""
    matched: str
    """The one of its names that the mention is most like."""
    score: float
    """What the similarities of vectors and n-grams make together, as the checkpoint learned: it ranks
    candidates, may lie outside of 0 to 1, and is no probability."""


class FineTypeOut(Reply):
    """A fine type of a mention."""

    name: str
    """The type."""
    score: float
    """How probable it is, from 0 to 1."""


class MentionOut(Reply):
    """A mention found in a text."""

    start: int
    """Where it begins in the text that was sent: characters (Unicode code points) from 0."""
    end: int
    """Where it ends: the place behind its last character."""
    text: str
    """The part of the text between them."""
    type: str
    """One of the types that were looked for."""
    score: float | None
    """From 0 to 1. Of a recognizer: where it is calibrated, how probable it is that the mention is right,
    else the logistic function of the margin; of a tagger: the mean probability of the labels of its words."""
    margin: float | None
    """How far the model's own score lies above the threshold; null for a model without thresholds."""
    uncertainty: float | None
    """The higher, the seldomer its words were seen; null for a model that does not know."""
    types: list[FineTypeOut]
    """Fine types, best first; empty without a stage that finds them."""


class LinkedMentionOut(MentionOut):
    """A mention with its entity."""

    entity_id: str | None
    """Null is NIL, or a type that is linked to no knowledge base."""
    name: str | None
    """That of the entity."""
    probability: float | None
    """That the first candidate is right, whether or not it is the answer; null without a calibration."""
    candidates: list[CandidateOut]
    """The entities that it may be, best first, also where the answer is NIL."""


class ContextOut(Reply):
    """A sentence that was chosen to be read with another one."""

    text: str
    """The sentence."""
    score: float | None
    """How relevant it is, the higher the more; null where nothing says so."""
    before: bool
    """Whether it goes before the sentence, not after it."""
    start: int | None
    """Where it begins in the text; null where it is not from there."""
    end: int | None
    """Where it ends in the text."""


class SentenceOut(Reply):
    """A sentence of a text, and the contexts that were chosen for it."""

    start: int
    """Where it begins in the text that was sent: characters (Unicode code points) from 0."""
    end: int
    """Where it ends: the place behind its last character."""
    contexts: list[ContextOut]
    """Those that were chosen; of them is read what has room in `windows.context` sub-words."""


class DocumentOut(Reply):
    """The mentions of a text."""

    document_id: str
    """That of the request."""
    windows: int
    """How many windows the first stage read."""
    mentions: list[MentionOut]
    """By start."""
    sentences: list[SentenceOut] | None = None
    """Where contexts were asked for and the model reads any."""


class LinkedDocumentOut(DocumentOut):
    """The linked mentions of a text."""

    mentions: list[LinkedMentionOut]  # pyright: ignore[reportIncompatibleVariableOverride]
    """By start."""


class RecognizeReply(Reply):
    """The documents with their mentions."""

    documents: list[DocumentOut]
    """In the order of the request."""
    new_types: NewTypes
    versions: Versions
    """What made the answers."""


class AnnotateReply(Reply):
    """The documents with their linked mentions."""

    documents: list[LinkedDocumentOut]
    """In the order of the request."""
    new_types: NewTypes
    versions: Versions
    """What made the answers."""


class AnswerOut(Reply):
    """The entity of a mention."""

    mention: str
    """As it was sent."""
    entity_id: str | None
    """Null is NIL; ids joined by `|` are those of a mention of several entities."""
    name: str | None
    """That of the entity."""
    matched: str | None
    """The one of its names that the mention is most like."""
    score: float | None
    """Of the first candidate, whether or not it is the answer."""
    margin: float | None
    """How far the next candidate's score lies below; null where there is none."""
    probability: float | None
    """That the first candidate is right; null without a calibration."""
    reason: str | None
    """Why the answer is NIL; null where it is an entity."""
    candidates: list[CandidateOut]
    """The entities that it may be, best first, also where the answer is NIL."""


class StandardizeReply(Reply):
    """The entities of mentions."""

    answers: list[AnswerOut]
    """In the order of the request."""
    versions: Versions
    """What made the answers."""


class Health(Reply):
    """Whether the service lives, or is ready."""

    status: Literal["ok"]
    """Always `ok`."""


class Problem(Reply):
    """What is wrong with one field of a request."""

    field: str
    """Where it is, such as `documents.3.text`: `body` is all of it; empty where it is none."""
    message: str
    """What is wrong."""
    hint: str = ""
    """What to do."""


class Problems(Reply):
    """The body of every error that the service itself answers with."""

    detail: list[Problem]
    """One for each field that is wrong."""
