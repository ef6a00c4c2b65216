"""Head words by spaCy's dependency parser (papers/003, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from rayner.data.schema import Document, Span
from rayner.data.sentences import sentences_of
from rayner.errors import InputError
from rayner.supervision.agreement import Heads, heads_by_rule
from rayner.supervision.spacy_pipelines import SPACY_MODEL, spacy_pipeline

AT_ONCE = 100_000
"""Characters that are parsed at once: the parser takes up to 1 GB for them, and refuses ten times as many."""
HeadFinder = Literal["auto", "spacy", "rule"]


def head_finder(name: HeadFinder) -> tuple[str, Heads]:
    """How heads are found, and its name; `auto` is by spaCy where it and the model are installed.

    Raises:
        InputError: `spacy`, and it is not installed.
    """
    if name == "rule":
        return "rule", heads_by_rule
    try:
        _pipeline()
    except InputError:
        if name == "spacy":
            raise
        return "rule", heads_by_rule
    return f"spacy:{SPACY_MODEL}", _heads_by_parse


def _heads_by_parse(document: Document, spans: Sequence[Span]) -> list[Span]:
    """The root of each span in the parse of its document; of a span without a token, as by rule."""
    found = heads_by_rule(document, spans)
    for begin, end in _pieces(document) if spans else ():
        inside = [number for number, (start, stop) in enumerate(spans) if begin <= start and stop <= end]
        if inside:
            parsed = _pipeline()(document.text[begin:end])
            for number in inside:
                found[number] = _root(parsed, begin, spans[number]) or found[number]
    return found


def _root(parsed: Any, begin: int, span: Span) -> Span | None:
    """The part of a span's root that is in it: a token of the parser may be longer than a word."""
    part = parsed.char_span(span[0] - begin, span[1] - begin, alignment_mode="expand")
    if not part:
        return None
    first = begin + part.root.idx
    start, end = max(span[0], first), min(span[1], first + len(part.root.text))
    return (start, end) if start < end else None


def _pieces(document: Document) -> list[Span]:
    """The text, if it is long in parts of whole sentences; a sentence that is as long itself is in none."""
    if len(document.text) <= AT_ONCE:
        return [(0, len(document.text))]
    pieces: list[Span] = []
    for start, end in sentences_of(document):
        if end - start > AT_ONCE:
            continue
        if pieces and end - pieces[-1][0] <= AT_ONCE:
            pieces[-1] = pieces[-1][0], end
        else:
            pieces.append((start, end))
    return pieces


@cache
def _pipeline() -> Any:
    return spacy_pipeline("--heads spacy", ["ner"])
