"""Which words of a text are in quotation marks, or are said after a dash."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rayner.data.schema import Span

_PARAGRAPH = re.compile(r"\n\s*\n")
_DASHES = frozenset({"—", "―", "–", "--"})
_CLOSING = {
    **dict.fromkeys(("“", "``", '"'), frozenset({"”", "''", '"'})),
    **dict.fromkeys(("«", "»"), frozenset({"«", "»"})),
    "„": frozenset({"“", "”"}),
    "‘": frozenset({"’", "'"}),
    "'": frozenset({"’", "'"}),
    "`": frozenset({"'"}),
}
"""Marks that open, and those that close what they opened; a dash is closed by none."""
_OPENING = frozenset({*_CLOSING, *_DASHES, "-"})
_SINGLE = frozenset({"‘", "'", "`"})
"""What opens, and is closed by what is an apostrophe elsewhere."""
_MARKS = frozenset([".", ",", "!", "?", ";", ":", "…", "-", "—", "―"])
_CUT_SHORT = frozenset(["tis", "twas", "twere", "twill", "em", "til", "till", "cause", "bout"])
"""Words that begin with an apostrophe."""
_FEW_WORDS = 4
"""Within a single pair of marks that no full stop or comma ends: a title, a word in an odd meaning."""


def quotations(text: str, spans: Sequence[Span]) -> list[int]:
    """The number of the quotation that each word is in, from 1; 0 outside.

    Of a speech in paragraphs each one opens, and only the last one closes: it is one quotation. A paragraph
    that does not open ends what another one began. One that begins with a dash is a quotation to its end.

    Args:
        spans: the words, marks among them.
    """
    words = [text[start:end] for start, end in spans]
    found, number, begun, by = [], 0, 0, ""
    for place, word in enumerate(words):
        begins = place == 0 or _begins_paragraph(text, spans[place - 1][1], spans[place][0])
        opens = word in _OPENING and _opens(text, spans, words, place, begins)
        if begins and (not opens or by not in _CLOSING or word not in _CLOSING):
            by = ""
        if opens and not by:
            number, begun, by = number + 1, place, word
            found.append(number)
            continue
        closes = word in _CLOSING.get(by, ()) and not (begins and opens)
        if closes and by in _SINGLE:
            closes = _closes_single(text, spans, words, place, begun)
        if closes:
            by = ""
        found.append(number if by else 0)
    return found


def _begins_paragraph(text: str, end: int, start: int) -> bool:
    return start - end > 1 and _PARAGRAPH.search(text, end, start) is not None


def _opens(text: str, spans: Sequence[Span], words: Sequence[str], place: int, begins: bool) -> bool:
    """Whether a word opens a quotation, if it is in none."""
    word = words[place]
    if word == "'":
        return _is_before_speech(text, spans, words, place)
    if word == "-":
        return begins and text.startswith("--", spans[place][0])
    return begins or word not in _DASHES


def _is_before_speech(text: str, spans: Sequence[Span], words: Sequence[str], place: int) -> bool:
    """Whether an apostrophe is the beginning of a quotation."""
    start, end = spans[place]
    before, after = text[start - 1 : start], text[end : end + 1]
    if before.isalnum() or (words[place + 1 : place + 2] or [""])[0].lower() in _CUT_SHORT:
        return False
    # Where all words are apart, as in a corpus of words, only the word before tells.
    apart = after.isspace() and (place == 0 or (before.isspace() and not words[place - 1][-1].isalnum()))
    return after.isalpha() or apart


def _closes_single(text: str, spans: Sequence[Span], words: Sequence[str], place: int, begun: int) -> bool:
    """Whether an apostrophe is the end of a quotation."""
    end = spans[place][1]
    after = text[end : end + 1]
    if after.isalnum():
        return False
    return words[place - 1] in _MARKS or after in _MARKS or place - begun <= _FEW_WORDS
