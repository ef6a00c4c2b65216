"""Distant labels: the names of a dictionary, found in texts by exact match of their words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from rayner.config import LabelSettings
from rayner.data.mention_strings import composed
from rayner.data.schema import UNKNOWN, Document, Mention
from rayner.data.words import find_words

ACRONYM_LENGTH = 5
"""The longest name, in characters, that counts as an acronym."""


class Name(NamedTuple):
    """A name of a type, of an entity where known. Without a type it is a phrase: found, but not labelled,
    or with `phrases: unknown` labelled as `UNKNOWN`."""

    name: str
    type: str | None
    entity_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Entry:
    words: tuple[str, ...]
    name: Name
    keeps_case: bool


class Dictionary:
    """Names by their words; white space, and so the tokenization of either side, does not count.

    A phrase holds its place, so that no shorter name is found within it (Shang et al. 2018, section 4.1).

    Args:
        names: in the dictionary's order, which `ambiguity: first` goes by. Names without a word are left out.
    """

    def __init__(self, names: Iterable[Name], settings: LabelSettings) -> None:
        self.settings = settings
        entries: dict[tuple[str, ...], list[_Entry]] = {}
        types: dict[str, None] = {}
        for name in names:
            words = tuple(name.name[start:end] for start, end in find_words(name.name))
            if name.type is not None:
                types[name.type] = None
            if words:
                entry = _Entry(_composed(words), name, self._keeps_case(composed(name.name)))
                entries.setdefault(self._key(words), []).append(entry)
        self.types = tuple(types)
        """In the order of their first names."""
        self._entries = entries
        widths: dict[str, set[int]] = {}
        for key in entries:
            widths.setdefault(key[0], set()).add(len(key))
        self._widths = {first: sorted(found, reverse=True) for first, found in widths.items()}

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def find(self, text: str) -> list[Mention]:
        """The mentions of the names, from left to right, the longest at each place, none over another."""
        spans = find_words(text)
        words = tuple(text[start:end] for start, end in spans)
        keys = self._key(words)
        mentions: list[Mention] = []
        place = 0
        while place < len(keys):
            for width in self._widths.get(keys[place], ()):
                after = place + width
                entries = self._entries.get(keys[place:after]) if after <= len(keys) else None
                matching = entries and self._matching(entries, words[place:after])
                if matching:
                    mentions += self._mentions(spans[place][0], spans[after - 1][1], matching)
                    place = after
                    break
            else:
                place += 1
        return mentions

    def _key(self, words: tuple[str, ...]) -> tuple[str, ...]:
        words = _composed(words)
        return words if self.settings.case == "exact" else tuple(map(str.casefold, words))

    def _keeps_case(self, name: str) -> bool:
        return self.settings.case == "acronyms" and name.isupper() and len(name) <= ACRONYM_LENGTH

    def _matching(self, entries: list[_Entry], words: tuple[str, ...]) -> list[_Entry]:
        """The entries written like the words, else those that may be written otherwise; phrases last."""
        words = _composed(words)
        alike = [e for e in entries if e.words == words]
        unlike = [e for e in entries if not e.keeps_case]
        labelled = ([e for e in some if e.name.type is not None] for some in (alike, unlike))
        return next(filter(None, labelled), None) or alike or unlike

    def _mentions(self, start: int, end: int, entries: list[_Entry]) -> list[Mention]:
        types = list(dict.fromkeys(e.name.type for e in entries if e.name.type is not None))
        if len(types) > 1 and self.settings.ambiguity == "drop":
            types = []
        if not types and self.settings.phrases == "unknown":
            return [Mention(start, end, UNKNOWN)]
        if self.settings.ambiguity == "first":
            types = types[:1]
        return [Mention(start, end, type_, _entity_of(entries, type_)) for type_ in types]


def label_document(document: Document, dictionary: Dictionary) -> Document:
    """The document with the dictionary's mentions in place of its own, annotated for its types."""
    mentions = tuple(dictionary.find(document.text))
    return replace(document, mentions=mentions, annotated_types=dictionary.types)


def _composed(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(composed, words))


def _entity_of(entries: list[_Entry], type_: str) -> str | None:
    """The entity of the names of a type, None where they name several."""
    ids = {entry.name.entity_id for entry in entries if entry.name.type == type_}
    return ids.pop() if len(ids) == 1 else None
