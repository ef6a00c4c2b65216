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
    """Where it begins: characters (Unicode code points) from 0."""
    end: Annotated[int, Field(strict=True, ge=1)]
    """The place behind its last character."""


class MarkedTextIn(TextIn):
    """A text whose mentions are known."""

    mentions: Items[SpanIn]
    """Where they are."""


class TypeRequest(Request):
    """Texts with their mentions, which are to get fine types; what is left out is as the pipeline file says
    or as trained."""

    documents: Items[MarkedTextIn]
    """The texts."""
    model: ModelName = None
    types: TypesIn = None
    shift: Annotated[float, Field(strict=True, ge=-1000, le=1000)] | None = None
    """Added to every threshold: below 0 gives more."""


class TypedMentionOut(Reply):
    """A mention that was given, and its fine types, best first: those above their thresholds, and where the
    recipe says so the best one in any case. A mention that touches no word has none."""

    start: int
    """As it was sent."""
    end: int
    """As it was sent."""
    text: str
    """The part of the text between them."""
    types: list[FineTypeOut]
    """Best first; those above their thresholds."""


class TypedDocumentOut(Reply):
    """The mentions of a text."""

    document_id: str
    """That of the request."""
    windows: int
    """How many windows the first stage read."""
    mentions: list[TypedMentionOut]
    """In the order of the request."""


class TypeReply(Reply):
    """The documents with the fine types of their mentions."""

    documents: list[TypedDocumentOut]
    """In the order of the request."""
    new_types: NewTypes
    versions: Versions
    """What made the answers."""
