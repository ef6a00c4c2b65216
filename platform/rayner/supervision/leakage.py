"""Training rows that hold sentences of the texts on which a model is tested."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rayner.data.words import find_words
from rayner.supervision.context_rows import ContextRow

_KEY = 12
"""Characters by which texts are looked up before they are compared."""


def without_leaks(
    rows: Sequence[ContextRow], texts: Iterable[tuple[str, str]]
) -> tuple[list[ContextRow], Counter[str]]:
    """The rows of which neither sentence nor context occurs in a text, and how many others each text has.

    Case, white space, punctuation and the cutting into words do not count: what occurs are the same letters
    and digits, from the begin of a word to the end of one. So a row of a few words may be left out for a text
    that happens to have them. A row that several texts have counts for each; `""` counts the rows left out.

    Args:
        texts: pairs of a name and a text, read one after another.
    """
    parts_of = [{_squashed(row.sentence), _squashed(row.context)} for row in rows]
    lookup = _Lookup(part for parts in parts_of for part in parts)
    numbers: dict[str, int] = {}
    having: defaultdict[str, set[int]] = defaultdict(set)
    for name, text in texts:
        number = numbers.setdefault(name, len(numbers))
        for part in lookup.occurring(text):
            having[part].add(number)
    names = list(numbers)
    kept, counts = [], Counter[str]()
    for row, parts in zip(rows, parts_of, strict=True):
        found = set[int]().union(*(having.get(part, ()) for part in parts))
        if found:
            counts.update([*(names[number] for number in sorted(found)), ""])
        else:
            kept.append(row)
    return kept, counts


class _Lookup:
    """Squashed strings by their first characters."""

    def __init__(self, wanted: Iterable[str]) -> None:
        self._by_key: defaultdict[str, list[str]] = defaultdict(list)
        for part in {*wanted} - {""}:
            self._by_key[part[:_KEY]].append(part)
        self._lengths = sorted({len(key) for key in self._by_key})

    def occurring(self, text: str) -> set[str]:
        """Those that the text has between edges of its words."""
        words = [_squashed(text[start:end]) for start, end in find_words(text)]
        squashed = "".join(words)
        edges = [0]
        for word in words:
            edges.append(edges[-1] + len(word))
        ends = set(edges)
        found: set[str] = set()
        for begin in edges:
            for length in self._lengths:
                for part in self._by_key.get(squashed[begin : begin + length], ()):
                    if begin + len(part) in ends and squashed.startswith(part, begin):
                        found.add(part)
        return found


def _squashed(text: str) -> str:
    """Its letters and digits, without case."""
    composed = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return "".join(filter(str.isalnum, composed.casefold()))
