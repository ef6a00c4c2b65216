"""Abbreviations that a document explains: `ataxia telangiectasia (AT)`.

The algorithm is that of Schwartz and Hearst (2003), A simple algorithm for identifying abbreviation
definitions in biomedical text, with offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

import regex

from rayner.data.schema import Document, Span

LONGEST = 10
"""Characters of the longest short form (section 3.1)."""
MOST_WORDS = 2
"""Words of a short form."""
_REACH = 500
"""Characters before the end of a long form among which it begins."""

# A bracket within a word explains nothing, but in Chinese or Thai no white space parts words.
_UNSPACED = r"\p{ea=W}\p{ea=F}\p{lb=SA}"
_BRACKETS = regex.compile(rf"(?|(?<![^\s{_UNSPACED}])[(\[{{]?\(([^()]*)\)|\(([^()]*)\)(?=[{_UNSPACED}]))")
_OWN_BRACKET = regex.compile(r"[(\[{][^\s()\[\]{}]*[)\]}][-\p{L}\p{N}]")
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}
_SENTENCE_END = regex.compile(r"[.!?]\s+(?=\p{Lu})|[;\n]")
_WORD = regex.compile(r"\S+")
_IN_WORD = r"[\p{L}\p{M}\p{N}]"
_WORD_START, _WORD_END = map(regex.compile, (rf"(?<!{_IN_WORD})[\p{{L}}\p{{N}}]", rf"(?!{_IN_WORD})"))
_CLAUSE = regex.compile(r"[,;]\s")


class Abbreviation(NamedTuple):
    """A short form and the long form that explains it.

    Args:
        short: its span, without brackets.
        long: its span, likewise.
        definition: the span of both with the closing bracket.
    """

    short: Span
    long: Span
    definition: Span


def find_abbreviations(text: str) -> list[Abbreviation]:
    """The pairs `long form (SF)` and `SF (long form)` of a text, in order.

    A short form has two to ten characters, at most two words, a letter, and begins with a letter or a digit.
    Its long form is the shortest run of words beside the bracket, within the sentence, that has the short
    form's letters and digits in order, the first of them at the start of a word (section 3.2), no bracket
    without its other half, and not the short form itself as a word.
    """
    found = []
    for match in _BRACKETS.finditer(text):
        before, inside = _before(text, match.start()), _stripped(text, match.start(1), match.end(1))
        clause = _CLAUSE.search(text, *inside)
        short = _stripped(text, inside[0], clause.start()) if clause else inside
        if _is_short_form(text[slice(*short)]):
            long = _long_form(text, short, before)
        else:
            short = _last_word(text, before)
            long = _long_form(text, short, inside) if _is_short_form(text[slice(*short)]) else None
        if long is not None:
            found.append(Abbreviation(short, long, (min(short[0], long[0]), match.end())))
    return found


def expander(text: str, abbreviations: Iterable[Abbreviation]) -> Callable[[Span], str]:
    """From a span of a text to its string, single-spaced, with long forms in place of short ones.

    A short form counts where it is a word of its own, case included. A definition that ends within the span
    leaves what the span has of its long form. Of several explanations of a short form the first counts. The
    short forms within a long form are written out too, once: those of two may explain each other.
    """
    definitions = list(abbreviations)
    ends = [definition[1] for *_, definition in definitions]
    long_of = {text[slice(*short)]: text[slice(*long)] for short, long, _ in reversed(definitions)}
    lengths = sorted({len(short) for short in long_of}, reverse=True)

    def string_of(span: Span) -> str:
        start, end = span
        pieces = []
        # A long text has many definitions and many mentions: each with each would take the square.
        for _, long, (begin, stop) in definitions[bisect_right(ends, start) : bisect_right(ends, end)]:
            if start < long[1]:
                pieces += [text[start:begin], text[max(start, long[0]) : long[1]]]
                start = stop
        return " ".join(written_out("".join((*pieces, text[start:end]))).split())

    def written_out(kept: str) -> str:
        pieces, done = [], 0
        for match in _WORD_START.finditer(kept) if long_of else ():
            if (begin := match.start()) < done:
                continue
            stops = (begin + length for length in lengths if kept[begin : begin + length] in long_of)
            stop = next((stop for stop in stops if _WORD_END.match(kept, stop)), None)
            if stop is not None:
                pieces += [kept[done:begin], long_of[kept[begin:stop]]]
                done = stop
        return "".join((*pieces, kept[done:]))

    # Where AFAP is `attenuated FAP`, a mention of either has the same string.
    long_of = {text[slice(*short)]: string_of(long) for short, long, _ in reversed(definitions)}
    return string_of


def strings_of_mentions(document: Document, abbreviations: bool = False) -> list[str]:
    """What each mention of a document is called, single-spaced.

    Args:
        abbreviations: whether short forms that the document explains are replaced by their long forms.
    """
    string_of = expander(document.text, find_abbreviations(document.text) if abbreviations else ())
    return [string_of((mention.start, mention.end)) for mention in document.mentions]


def _is_short_form(text: str) -> bool:
    return (
        2 <= len(text) <= LONGEST
        and len(text.split()) <= MOST_WORDS
        and text[0].isalnum()
        and any(c.isalpha() for c in text)
    )


def _long_form(text: str, short: Span, beside: Span) -> Span | None:
    """The shortest end of `beside` that explains the short form (section 3.2); None where none does."""
    letters = [_folded(c) for c in text[slice(*short)] if c.isalnum()]
    words = [m.span() for m in _WORD.finditer(text, max(beside[0], beside[1] - _REACH), beside[1])]
    most = min(len(letters) + 5, 2 * len(letters))
    words = words[-most:]
    if not words:
        return None
    first, place = words[0][0], beside[1]
    for number, letter in reversed(list(enumerate(letters))):
        place -= 1
        while place >= first and (
            _folded(text[place]) != letter or (number == 0 and not _WORD_START.match(text, place))
        ):
            place -= 1
        if place < first:
            return None
    begin = max((start for start, _ in words if start <= place), default=first)
    # A word that a quotation mark or a bracket opens begins behind it, but `(R)-methylhistamine` does not.
    is_opened = not text[begin:place].strip("\"'([{") and not _OWN_BRACKET.match(text, begin)
    long = (place if is_opened else begin, beside[1])
    form = text[slice(*long)]
    if not _has_both_of_each_bracket(form):
        return None
    is_longer = len(form) > short[1] - short[0]
    return long if is_longer and not _has_word(form, text[slice(*short)]) else None


def _has_word(text: str, word: str) -> bool:
    starts = (match.start() for match in _WORD_START.finditer(text))
    return any(text.startswith(word, start) and _WORD_END.match(text, start + len(word)) for start in starts)


def _folded(character: str) -> str:
    # In lower case `İ` is two characters, an i and its dot.
    return character.lower()[0]


def _has_both_of_each_bracket(text: str) -> bool:
    missing: list[str] = []
    for c in text:
        if c in _CLOSED_BY:
            missing.append(_CLOSED_BY[c])
        elif c in _CLOSED_BY.values() and (not missing or missing.pop() != c):
            return False
    return not missing


def _before(text: str, end: int) -> Span:
    """The part of the sentence that ends at a bracket, white space left out."""
    reach = max(0, end - _REACH)
    begin = max((m.end() for m in _SENTENCE_END.finditer(text, reach, end)), default=reach)
    return _stripped(text, begin, end)


def _last_word(text: str, span: Span) -> Span:
    words = [m.span() for m in _WORD.finditer(text, *span)]
    return words[-1] if words else (span[1], span[1])


def _stripped(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), max(start + len(part.rstrip()), start)
