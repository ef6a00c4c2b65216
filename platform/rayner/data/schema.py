"""Documents, mentions and entities, and the Arrow schemas in which they are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

Span = tuple[int, int]
UNKNOWN = "?"
"""The type of a mention of which nobody knows whether it is one, or of which type: no negative of any."""
UNTYPED = "mention"
"""The type of a mention whose source knows no types."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a mention may be.

    `name` is that of the entity, `matched` the one of its name and aliases that the mention is most like;
    None where that is not known.
    """

    entity_id: str
    score: float
    name: str | None = None
    matched: str | None = None


@dataclass(frozen=True, slots=True)
class Mention:
    """A typed span of a document.

    `start` and `end` count Unicode code points of the document's text, half-open. `name` is that of the
    entity; several ids are joined by `|`, and so are their names. `types` holds (fine type, score), best
    first, as `candidates` are. `margin` is how far the span's
    score lies over its threshold (None without one), `probability` that the first candidate is right (None
    where nothing is calibrated). `uncertainty` is the entropy of what represents its words (None where that
    is no distribution): it tells what was seldom seen, whatever the score.
    """

    start: int
    end: int
    type: str
    entity_id: str | None = None
    chain: str | None = None
    head: Span | None = None
    score: float | None = None
    types: tuple[tuple[str, float], ...] = ()
    candidates: tuple[Candidate, ...] = ()
    margin: float | None = None
    probability: float | None = None
    uncertainty: float | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Another text that is read with a document, before or after it, and how relevant it is (None: unknown).

    It helps to decide about the document's own text; nothing is found in it. `start` and `end` say where in
    the document it is; None where it is not from there. Where not all have room, those of the lowest `turn`
    are read, which is not stored; None: those of the highest score.
    """

    text: str
    score: float | None = None
    before: bool = True
    start: int | None = None
    end: int | None = None
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id, and what is known of it.

    `words` and `sentences` are spans of the text, in order. `group` is what a split must not cut (a book,
    a patient). `annotated_types` are the types that the document was annotated for; None means all. Those of
    mentions bring all their fine types with them.
    `contexts` are read with it, those before it and those after it each in their order. With
    `sentence_contexts`, as many as `sentences`, it is read sentence by sentence, each with its own; they are
    passed from stage to stage, and stored with answers (`sentence_rows`), from which no reader takes them.
    """

    document_id: str
    text: str
    mentions: tuple[Mention, ...] = ()
    words: tuple[Span, ...] | None = None
    sentences: tuple[Span, ...] | None = None
    language: str | None = None
    group: str | None = None
    annotated_types: tuple[str, ...] | None = None
    contexts: tuple[Context, ...] = ()
    sentence_contexts: tuple[tuple[Context, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Entity:
    """An entry of a knowledge base. `other_ids` are further ids of it, which mentions may have."""

    entity_id: str
    name: str
    aliases: tuple[str, ...] = ()
    type: str | None = None
    description: str | None = None
    other_ids: tuple[str, ...] = ()


def story_of(document: Document) -> str:
    """What a document is a part of: no split cuts it, and entities are not told apart within it."""
    return document.document_id if document.group is None else document.group


def all_contexts(document: Document) -> Iterator[Context]:
    """The contexts of a document, and those of each of its sentences."""
    return chain(document.contexts, *(document.sentence_contexts or ()))


def chained(document: Document) -> list[Mention]:
    """The mentions that corefer with another one of the document."""
    sizes = Counter(mention.chain for mention in document.mentions)
    return [m for m in document.mentions if m.chain is not None and sizes[m.chain] > 1]


_SPAN = pa.struct([("start", pa.int32()), ("end", pa.int32())])
_CONTEXT = pa.struct(
    [
        ("text", pa.string()),
        ("score", pa.float32()),
        ("before", pa.bool_()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)
SENTENCE_TYPE = pa.struct([*_SPAN, ("contexts", pa.list_(_CONTEXT))])
_SCORED = pa.struct([("name", pa.string()), ("score", pa.float32())])
_CANDIDATE = pa.struct(
    [
        ("entity_id", pa.string()),
        ("score", pa.float32()),
        ("name", pa.string()),
        ("matched", pa.string()),
    ]
)

MENTION_TYPE = pa.struct(
    [
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("type", pa.string()),
        ("entity_id", pa.string()),
        ("name", pa.string()),
        ("chain", pa.string()),
        ("head", _SPAN),
        ("score", pa.float32()),
        ("types", pa.list_(_SCORED)),
        ("candidates", pa.list_(_CANDIDATE)),
        ("margin", pa.float32()),
        ("probability", pa.float32()),
        ("uncertainty", pa.float32()),
    ]
)

MENTION_FIELDS = {field.name for field in MENTION_TYPE}

DOCUMENT_SCHEMA = pa.schema(
    [
        pa.field("document_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        ("mentions", pa.list_(MENTION_TYPE)),
        ("words", pa.list_(_SPAN)),
        ("sentences", pa.list_(_SPAN)),
        ("language", pa.string()),
        ("group", pa.string()),
        ("annotated_types", pa.list_(pa.string())),
        ("contexts", pa.list_(_CONTEXT)),
    ]
)

ENTITY_SCHEMA = pa.schema(
    [
        pa.field("entity_id", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        ("aliases", pa.list_(pa.string())),
        ("type", pa.string()),
        ("description", pa.string()),
        ("other_ids", pa.list_(pa.string())),
    ]
)


def document_to_row(document: Document) -> dict[str, Any]:
    """The document as a row of `DOCUMENT_SCHEMA`."""
    return {
        "document_id": document.document_id,
        "text": document.text,
        "mentions": [mention_to_row(m) for m in document.mentions],
        "words": _span_rows(document.words),
        "sentences": _span_rows(document.sentences),
        "language": document.language,
        "group": document.group,
        "annotated_types": None if document.annotated_types is None else list(document.annotated_types),
        "contexts": [context_to_row(context) for context in document.contexts],
    }


def document_from_row(row: dict[str, Any]) -> Document:
    """The document of a row; columns that are missing count as null."""
    return Document(
        document_id=row["document_id"],
        text=row["text"],
        mentions=tuple(mention_from_row(m) for m in row.get("mentions") or ()),
        words=_spans(row.get("words")),
        sentences=_spans(row.get("sentences")),
        language=row.get("language"),
        group=row.get("group"),
        annotated_types=None if row.get("annotated_types") is None else tuple(row["annotated_types"]),
        contexts=tuple(
            Context(
                c["text"],
                _number(c.get("score")),
                bool(c.get("before", True)),
                c.get("start"),
                c.get("end"),
            )
            for c in row.get("contexts") or ()
        ),
    )


def context_to_row(context: Context) -> dict[str, Any]:
    """The context as it is stored."""
    return {name: getattr(context, name) for name in ("text", "score", "before", "start", "end")}


def sentence_rows(document: Document) -> list[dict[str, Any]] | None:
    """The sentences as values of `SENTENCE_TYPE`, with their contexts; None where there are none."""
    if document.sentence_contexts is None:
        return None
    read = zip(document.sentences or (), document.sentence_contexts, strict=True)
    return [
        {"start": start, "end": end, "contexts": [context_to_row(context) for context in contexts]}
        for (start, end), contexts in read
    ]


def mention_to_row(mention: Mention) -> dict[str, Any]:
    """The mention as a value of `MENTION_TYPE`."""
    return {
        "start": mention.start,
        "end": mention.end,
        "type": mention.type,
        "entity_id": mention.entity_id,
        "name": mention.name,
        "chain": mention.chain,
        "head": None if mention.head is None else {"start": mention.head[0], "end": mention.head[1]},
        "score": mention.score,
        "types": [{"name": name, "score": score} for name, score in mention.types],
        "candidates": [_candidate_row(candidate) for candidate in mention.candidates],
        "margin": mention.margin,
        "probability": mention.probability,
        "uncertainty": mention.uncertainty,
    }


def mention_from_row(row: dict[str, Any]) -> Mention:
    """The mention of a row; fields that are missing count as null."""
    head = row.get("head")
    return Mention(
        start=row["start"],
        end=row["end"],
        type=_type(row),
        entity_id=row.get("entity_id"),
        chain=row.get("chain"),
        head=None if head is None else (head["start"], head["end"]),
        score=_number(row.get("score")),
        types=tuple(map(_fine_type, row.get("types") or ())),
        candidates=tuple(_candidate(c) for c in row.get("candidates") or ()),
        margin=_number(row.get("margin")),
        probability=_number(row.get("probability")),
        uncertainty=_number(row.get("uncertainty")),
        name=row.get("name"),
    )


def _type(row: dict[str, Any]) -> str:
    """The type of a row's mention, which may have none, unless a field of another name may mean it."""
    if row.get("type") is None and row.keys() <= MENTION_FIELDS:
        return UNTYPED
    return row["type"]


def _candidate_row(candidate: Candidate) -> dict[str, Any]:
    return {
        "entity_id": candidate.entity_id,
        "score": candidate.score,
        "name": candidate.name,
        "matched": candidate.matched,
    }


def _candidate(row: dict[str, Any]) -> Candidate:
    if "entity_id" not in row:
        # Rows of before candidates had names: the id was called `name`.
        return Candidate(row["name"], _number(row["score"]))
    return Candidate(row["entity_id"], _number(row["score"]), row.get("name"), row.get("matched"))


def _fine_type(row: dict[str, Any]) -> tuple[str, float]:
    if not isinstance(row, dict):
        raise TypeError(f'{row!r} among the fine types of a mention, not {{"name": ..., "score": ...}}')
    return row["name"], _number(row["score"])


def _number(value: Any) -> Any:
    """A score as it is stored; Arrow takes no large integer for one."""
    return float(value) if type(value) is int else value


def documents_to_table(documents: Iterable[Document]) -> pa.Table:
    """All documents in one Arrow table."""
    return pa.Table.from_pylist([document_to_row(d) for d in documents], schema=DOCUMENT_SCHEMA)


def documents_from_table(table: pa.Table | pa.RecordBatch) -> Iterator[Document]:
    """The documents of a table, in order."""
    return (document_from_row(row) for row in table.to_pylist())


def _span_rows(spans: tuple[Span, ...] | None) -> list[dict[str, int]] | None:
    return None if spans is None else [{"start": start, "end": end} for start, end in spans]


def _spans(rows: list[dict[str, int]] | None) -> tuple[Span, ...] | None:
    return None if rows is None else tuple((row["start"], row["end"]) for row in rows)
