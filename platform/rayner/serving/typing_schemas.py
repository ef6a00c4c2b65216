"""What goes over HTTP where mentions are given and get fine types."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rayner.serving.schemas import (
    FineTypeOut,
    Items,
    ModelName,
    NewTypes,
    Reply,
    Request,
    TextIn,
    TypesIn,
    Versions,
)


class SpanIn(Request):
    """Where a mention is in its text."""

    start: Annotated[int, Field(strict=True, ge=0)]
    end: Annotated[int, Field(strict=True, ge=1)]


class MarkedTextIn(TextIn):
    """A text whose mentions are known."""

    mentions: Items[SpanIn]


class TypeRequest(Request):
    """Texts with their mentions, which are to get fine types; what is left out is as the pipeline file says
    or as trained."""

    documents: Items[MarkedTextIn]
    model: ModelName = None
    types: TypesIn = None
    shift: Annotated[
        Annotated[float, Field(strict=True, ge=-1000, le=1000)] | None,
        Field(description="added to every threshold: below 0 gives more"),
    ] = None


class TypedMentionOut(Reply):
    """A mention that was given, and its fine types, best first: those above their thresholds, and where the
    recipe says so the best one in any case. A mention that touches no word has none."""

    start: int
    end: int
    text: str
    types: list[FineTypeOut]


class TypedDocumentOut(Reply):
    """The mentions of a text in the order of the request, and how many windows the first stage read."""

    document_id: str
    windows: int
    mentions: list[TypedMentionOut]


class TypeReply(Reply):
    """The documents in the order of the request."""

    documents: list[TypedDocumentOut]
    new_types: NewTypes
    versions: Versions
