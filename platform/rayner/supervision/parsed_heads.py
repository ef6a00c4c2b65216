"""Head words by spaCy's dependency parser (papers/003, section 3.1)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from rayner.data.schema import Document, Span
from rayner.errors import InputError
from rayner.supervision.agreement import Heads, heads_by_rule

SPACY_MODEL = "en_core_web_sm"
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
    if not spans:
        return []
    parsed = _pipeline()(document.text)
    found = [parsed.char_span(*span, alignment_mode="expand") for span in spans]
    by_rule = heads_by_rule(document, spans)
    return [
        _within(span, (part.root.idx, part.root.idx + len(part.root.text))) or other if part else other
        for span, part, other in zip(spans, found, by_rule, strict=True)
    ]


def _within(span: Span, head: Span) -> Span | None:
    """The part of a head that is in its span: a token of the parser may be longer than a word."""
    start, end = max(span[0], head[0]), min(span[1], head[1])
    return (start, end) if start < end else None


@cache
def _pipeline() -> Any:
    try:
        spacy: Any = importlib.import_module("spacy")
        return spacy.load(SPACY_MODEL, exclude=["ner"])
    except (ImportError, OSError):
        hint = f"pip install spacy, then python -m spacy download {SPACY_MODEL}"
        what = f"spaCy with the pipeline {SPACY_MODEL} is not installed"
        raise InputError("--heads spacy", what, hint) from None
