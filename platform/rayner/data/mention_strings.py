"""Mentions without their texts: strings and the entities that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from rayner.data.readers.base import NO_ENTITY, Reject, is_encodable
from rayner.errors import CorpusError


@dataclass(frozen=True, slots=True)
class MentionString:
    """A mention: any of its entities is right; none is NIL.

    `whole` is the field that `entity_ids` were parted from, without regard to what entities there are.
    """

    text: str
    entity_ids: tuple[str, ...]
    type: str | None = None
    whole: str | None = field(default=None, compare=False)

    def parted_for(self, entity_of: Callable[[str], str | None]) -> MentionString:
        """The mention with its ids as `ids_of` parts them beside the entities that there are."""
        if self.whole is None:
            return self
        return replace(self, entity_ids=tuple(dict.fromkeys(ids_of(self.whole, entity_of))))


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

    def add(self, text: Any, entity_ids: Sequence[str] | str, where: str, type: str | None = None) -> None:
        """Take a mention, white space around it left out; an empty one is rejected.

        Args:
            entity_ids: its ids, or a field that may hold several.
        """
        whole = entity_ids.strip() if isinstance(entity_ids, str) else None
        ids = entity_ids if whole is None else ids_of(whole)
        if not isinstance(text, str) or not text.strip():
            self.reject(where, f"the mention {text!r} is no text", "remove the row, or write the mention")
        elif not is_encodable(text):
            what = f"the mention {text[:60]!a} holds half a surrogate pair, which is no character"
            self.reject(where, what, "write the character itself, in UTF-8")
        else:
            self.mentions.append(MentionString(text.strip(), tuple(dict.fromkeys(ids)), type, whole))


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


def ids_of(value: str, entity_of: Callable[[str], str | None] = lambda _: None) -> tuple[str, ...]:
    """The ids in a field: `D1|D2` and `D1+D2` are two, `-1` and the like none.

    Args:
        entity_of: the entity of an id, or None; an id of one is not parted (`C++`, and in `C++|D1` too).
    """
    for mark in "|+":
        if mark in value and entity_of(value.strip()) is None:
            return tuple(id_ for part in value.split(mark) for id_ in ids_of(part, entity_of))
    value = value.strip()
    return () if value in NO_ENTITY else (value,)
