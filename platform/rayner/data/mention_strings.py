"""Mentions without their texts: strings and the entities that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from rayner.data.readers.base import NO_ENTITY, Reject, is_encodable
from rayner.errors import CorpusError


@dataclass(frozen=True, slots=True)
class MentionString:
    """A mention: any of its entities is right; none is NIL."""

    text: str
    entity_ids: tuple[str, ...]
    type: str | None = None


@dataclass(slots=True)
class MentionReading:
    """The mentions of some files, and all that was not read as it stood.

    `mended` and `ignored` count by reason, as in `readers.Reading`.
    """

    mentions: list[MentionString] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    mended: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)

    def reject(self, where: str, what: str, cure: str) -> None:
        """Note a row that was not read."""
        self.rejects.append(Reject(where, what, cure))

    def add(self, text: Any, entity_ids: Sequence[str], where: str, type: str | None = None) -> None:
        """Take a mention, white space around it left out; an empty one is rejected."""
        if not isinstance(text, str) or not text.strip():
            self.reject(where, f"the mention {text!r} is no text", "remove the row, or write the mention")
        elif not is_encodable(text):
            what = f"the mention {text[:60]!a} holds half a surrogate pair, which is no character"
            self.reject(where, what, "write the character itself, in UTF-8")
        else:
            self.mentions.append(MentionString(text.strip(), tuple(dict.fromkeys(entity_ids)), type))


Read = Callable[[Path, MentionReading], None]


def read_mention_strings(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    format: str = "auto",
    types: Sequence[str] = (),
) -> MentionReading:
    """The mentions of files, in their order, repeats included.

    Formats: `mentions`, JSON lines `{"mention", "entity_id"}` (null for NIL, a list for several that are
    right); `esappmod`; `pairs`, lines `DOCUMENT<TAB>MENTION<TAB>ID` with several ids parted by `|` and `+`;
    and those of corpora, whose mentions without an id are ignored and counted.

    Args:
        types: of a corpus, only mentions of these types; empty is all.

    Raises:
        CorpusError: no such file, no known format, or no mention in any of them.
    """
    from rayner.data.mention_readers import READERS, detect_reader, read_documents

    given = [Path(paths)] if isinstance(paths, str | PathLike) else [Path(path) for path in paths]
    reading = MentionReading()
    for path in given:
        if not path.exists():
            raise CorpusError(str(path), "no such file", "name a file of mentions")
        name = (detect_reader(path) or format) if format == "auto" else format
        if name in READERS:
            READERS[name](path, reading)
        else:
            read_documents(path, name, types, reading)
    if not reading.mentions:
        if reading.rejects:
            first = reading.rejects[0]
            raise CorpusError(first.where, first.what, first.cure)
        what = f"no mention{f' of {list(types)}' if types else ''} with an entity id in it"
        raise CorpusError(", ".join(map(str, given)), what, "name other files or types")
    return reading


def ids_of(value: str) -> tuple[str, ...]:
    """The ids in a field: `D1|D2` and `D1+D2` are two, `-1` and the like none."""
    parts = [part.strip() for part in value.replace("+", "|").split("|")]
    return tuple(part for part in parts if part not in NO_ENTITY)
