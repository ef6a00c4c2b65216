"""What every reader shares: units of work, and what reading one of them yields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rayner.counted import counted
from rayner.data.schema import Document, Mention, all_contexts
from rayner.files.uris import with_uris

NO_ENTITY = frozenset({"", "-", "-1", "<null>", "null", "None", "NOCODE", "NIL", "CUI-less", "--NME--"})
"""How corpora write that a mention has no entity (the last two: ShARe, AIDA CoNLL)."""


@dataclass(frozen=True, slots=True)
class FileUnit:
    """What one parallel task reads: a file, or files that belong together (a text and its annotations).

    `name` is unique among the units found together; documents without an id of their own are named after
    it. `whole` says of a column file without document marks that it is one document. A part of a large file
    has a `span` of it (bytes, or row groups of Parquet), and `first` counts the lines or rows before that.
    """

    format: str
    paths: tuple[str, ...]
    name: str
    whole: bool = False
    span: tuple[int, int] | None = None
    first: int = 0


@dataclass(frozen=True, slots=True)
class Reject:
    """A document, mention or line that was not read: where (`file:line`), what, and what to do about it."""

    where: str
    what: str
    hint: str
    document_id: str | None = None

    def __post_init__(self) -> None:
        # Of what was fetched from a URI, whoever reads this knows the URI alone.
        for name in ("where", "what"):
            object.__setattr__(self, name, as_written(with_uris(getattr(self, name))))
        if self.document_id is not None:
            object.__setattr__(self, "document_id", as_written(self.document_id))

    def to_row(self) -> dict[str, Any]:
        """The reject as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class Reading:
    """What was read, and all that was not read as it stood.

    `places` says where each document was found. `repaired` counts what was read differently from how it was
    written, `ignored` what the schema has no place for (relations, comments), each by reason.
    """

    documents: list[Document] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)

    def reject(self, where: str, what: str, hint: str = "", document_id: str | None = None) -> None:
        """Note what could not be read."""
        self.rejects.append(Reject(where, what, hint, document_id))

    def add(self, document: Document, where: str) -> None:
        """Take a document, less the mentions that its text cannot hold; those are rejected."""
        fault = _fault(document)
        if fault is not None:
            self.reject(where, *fault, document.document_id or None)
            return
        size = len(document.text)
        good = tuple(m for m in document.mentions if 0 <= m.start < m.end <= size and m.type.strip())
        if len(good) < len(document.mentions):
            for mention in document.mentions:
                if mention.start >= mention.end:
                    what = f"mention [{mention.start}, {mention.end}) without a character"
                    self.reject(where, what, "its end is behind its last character", document.document_id)
                elif not 0 <= mention.start < mention.end <= size:
                    text = f"the text of {counted(size, 'character')}"
                    what = f"mention [{mention.start}, {mention.end}) outside {text}"
                    self.reject(where, what, "offsets count characters from 0", document.document_id)
                elif not mention.type.strip():
                    what = f"mention [{mention.start}, {mention.end}) without a type"
                    self.reject(where, what, "give it a type", document.document_id)
            document = replace(document, mentions=good)
        self.documents.append(document)
        self.places.append(where)


@dataclass(frozen=True, slots=True)
class Sample:
    """The first lines of a file, to tell its format by."""

    path: Path
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Format:
    """A format: how to know it, how to cut files into units, how to read a unit.

    `parts` cuts the unit of a large file further; None where a file has to be read from its start.
    """

    name: str
    matches: Callable[[Sample], bool]
    units: Callable[[Sequence[Path]], list[FileUnit]]
    read: Callable[[FileUnit], Reading]
    parts: Callable[[FileUnit], list[FileUnit]] | None = None


def in_order(mentions: Sequence[Mention]) -> tuple[Mention, ...]:
    """Mentions by start, the longer first."""
    return tuple(sorted(mentions, key=lambda m: (m.start, -m.end, m.type, m.entity_id or "", m.chain or "")))


def entity_of(value: str) -> str | None:
    """An entity id as written, None for what corpora write when there is none."""
    value = value.strip()
    return None if value in NO_ENTITY else value


def is_encodable(text: str) -> bool:
    """Whether it is without halves of surrogate pairs, which JSON may hold and no file can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_written(text: str) -> str:
    """The text with halves of surrogate pairs, which no file can hold, as Python writes them."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _fault(document: Document) -> tuple[str, str] | None:
    if not document.document_id:
        return "a document without an id", "give it a document_id"
    for text in (document.document_id, document.text, *strings_of(document)):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"half a surrogate pair at {error.start} of {text[:20]!a}", "write the character as UTF-8"
    return None


def strings_of(document: Document) -> Iterator[str]:
    """What a document holds beside its id and its text: names, ids, contexts."""
    yield from filter(None, (document.language, document.group, *(document.annotated_types or ())))
    yield from (context.text for context in all_contexts(document))
    for mention in document.mentions:
        yield from filter(None, (mention.type, mention.entity_id, mention.name, mention.chain))
        yield from (name for name, _ in mention.types)
        for one in mention.candidates:
            yield from filter(None, (one.entity_id, one.name, one.matched))
