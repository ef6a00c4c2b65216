"""Words of a text in any script: the units at which a mention may start and end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import regex

from rayner.data.schema import Document, Span

# Scripts without spaces between words: a grapheme cluster is a word, so that a mention may begin anywhere.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
_LETTERS = rf"[[\p{{L}}\p{{N}}]--[{_UNSPACED}]]"
# As \X has them, which looks through all flags before each of them for where it begins.
_FLAG = r"\p{Regional_Indicator}{1,2}+[\p{Grapheme_Extend}\p{GCB=SpacingMark}\u200d]*+"
_WORD = regex.compile(
    rf"{_LETTERS}(?:\p{{M}}|\p{{Cf}}(?={_LETTERS})|{_LETTERS})*+|{_FLAG}|(?=[^\s\p{{Cc}}\p{{Cf}}])\X",
    flags=regex.VERSION1,
)


def find_words(text: str) -> list[Span]:
    """Spans of the words of a text, in order.

    A word is a run of letters, digits and their combining marks, or one grapheme cluster of anything else
    that is neither space nor control character: a punctuation mark, an emoji with its modifiers, a Han
    character, a Thai syllable's cluster.
    """
    return [match.span() for match in _WORD.finditer(text)]


def words_of(document: Document, source: str) -> list[Span]:
    """The words of a document: its own where `source` is `corpus` and it has some, else those of its text.

    Words of its own that overlap or are not in order would tear its sentences apart; they count as none.
    White space alone, such as spaCy's tokens of it, is no word, and neither is an empty one: a mention would
    begin there.
    """
    if source == "corpus" and document.words is not None and are_in_order(document.words):
        return [(start, end) for start, end in document.words if document.text[start:end].strip()]
    return find_words(document.text)


def are_in_order(spans: Sequence[Span]) -> bool:
    """Whether each span begins where the one before has ended, or later."""
    return all(before[1] <= after[0] for before, after in pairwise(spans))
