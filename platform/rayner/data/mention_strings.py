"""Mentions without their texts: strings and the entities that they stand for."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rayner.data.readers.base import NO_ENTITY, Reject, is_encodable

SEVERAL = "|"
"""Between the ids of a mention of several entities."""
MOST_CHARACTERS = 500
"""A longer string names no entity: such a mention is NIL, and is not encoded."""
_MOST_COMPOSED = 4
"""Characters of the longest canonical decomposition (Unicode Standard Annex 15)."""


def composed(text: str) -> str:
    """The text with each letter and its marks as one character (Unicode's NFC), where they are written apart,
    as on macOS and by some converters of PDF."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def normal_form(text: str) -> str:
    """A name or mention as linking compares it: `composed`, with single spaces."""
    return composed(" ".join(text.split()))


def fold(text: str) -> str:
    """The `normal_form` of a string, without case."""
    return normal_form(text).casefold()


def unanswerable(text: str) -> str | None:
    """Why a mention is NIL whatever the knowledge base holds; None where it is not."""
    if not text.strip():
        return "empty"
    if not is_encodable(text):
        return "half a surrogate pair, which is no character"
    # What equals a shorter text but for how it is written is answered as that is. To compose marks takes the
    # square of their number, and no character is composed of more than `_MOST_COMPOSED`.
    plain = " ".join(text.split())
    if len(plain) > _MOST_COMPOSED * MOST_CHARACTERS or len(text := composed(plain)) > MOST_CHARACTERS:
        return f"longer than {MOST_CHARACTERS} characters"
    # Separators, control characters and punctuation; symbols such as + or € may be names.
    if all(unicodedata.category(character)[0] in "ZCP" for character in text):
        return "only punctuation"
    return None


@dataclass(frozen=True, slots=True)
class MentionString:
    """A mention: any of its entities is right; none is NIL.

    `whole` is the field that `entity_ids` were parted from, without regard to what entities there are;
    `sentence` the one that it is in, None where that is not known.
    """

    text: str
    entity_ids: tuple[str, ...]
    type: str | None = None
    whole: str | None = field(default=None, compare=False)
    sentence: str | None = None

    def parted_for(self, entity_of: Callable[[str], str | None]) -> MentionString:
        """The mention with its ids as `ids_of` parts them beside the entities that there are."""
        if self.whole is None:
            return self
        return replace(self, entity_ids=tuple(dict.fromkeys(ids_of(self.whole, entity_of))))


@dataclass(slots=True)
class MentionReading:
    """The mentions of some files, and all that was not read as it stood.

    `repaired` and `ignored` count by reason, as in `readers.Reading`.
    """

    mentions: list[MentionString] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)

    def reject(self, where: str, what: str, hint: str) -> None:
        """Note a row that was not read."""
        self.rejects.append(Reject(where, what, hint))

    def add(
        self,
        text: Any,
        entity_ids: Sequence[str] | str,
        where: str,
        type: str | None = None,
        sentence: str | None = None,
    ) -> None:
        """Take a mention, `composed`, white space around it left out; an empty one is rejected.

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
            found = tuple(dict.fromkeys(ids))
            self.mentions.append(MentionString(composed(text.strip()), found, type, whole, sentence))


def ids_of(value: str, entity_of: Callable[[str], str | None] = lambda _: None) -> tuple[str, ...]:
    """The ids in a field: `D1|D2` and `D1+D2` are two, `-1` and the like none. Beside a `+` that parts ids
    there is one on each side: `lang-c++` is one id, whether its entity is known or not. `D1,D2` and `D1;D2`
    are two where both have an entity.

    Args:
        entity_of: the entity of an id, or None; an id of one is not parted (`C++`, and in `C++|D1` too).
    """
    value = value.strip()
    for mark in "|+":
        parts = value.split(mark)
        if len(parts) > 1 and entity_of(value) is None and (mark == "|" or all(map(str.strip, parts))):
            return tuple(id_ for part in parts for id_ in ids_of(part, entity_of))
    for mark in ",;":
        parts = [part.strip() for part in value.split(mark)]
        if len(parts) > 1 and entity_of(value) is None and None not in map(entity_of, parts):
            return tuple(parts)
    return () if value in NO_ENTITY else (value,)


def is_right(entity_id: str | None, entity_ids: Collection[str]) -> bool:
    """Whether an answer is one of the entities, or several of them and no other; None is never."""
    if entity_id is None or entity_id in entity_ids:
        return entity_id is not None
    return SEVERAL in entity_id and all(id_ in entity_ids for id_ in _joined_ids(entity_id, entity_ids))


def name_of(answer: str, names: Mapping[str, str]) -> str:
    """The name of an answer: that of its entity, or those of its entities, joined as their ids are.

    Args:
        names: by id; an id that is not there has none.
    """
    return f" {SEVERAL} ".join(names[id_] for id_ in _joined_ids(answer, names) if id_ in names)


def ids_within(answer: str) -> set[str]:
    """All that may be an id of an answer: itself, and each of those that it may join."""
    pieces = answer.split(SEVERAL)
    return {SEVERAL.join(pieces[i:j]) for i in range(len(pieces)) for j in range(i + 1, len(pieces) + 1)}


def _joined_ids(answer: str, known: Collection[str]) -> tuple[str, ...]:
    """The ids that an answer joins: as few as there may be of which none, or the fewest, are not known. An id
    may itself hold the mark between ids."""
    pieces = answer.split(SEVERAL)
    rests: list[tuple[int, tuple[str, ...]]] = [(0, ())]
    for start in reversed(range(len(pieces))):
        ways = []
        for end, (unknown, rest) in enumerate(rests, start + 1):
            id_ = SEVERAL.join(pieces[start:end])
            if id_ in known:
                ways.append((unknown, (id_, *rest)))
            elif end == start + 1:
                ways.append((unknown + 1, (id_, *rest)))
        rests.insert(0, min(ways, key=lambda way: (way[0], len(way[1]))))
    return rests[0][1]
