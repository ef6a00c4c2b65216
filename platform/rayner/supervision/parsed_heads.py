"""Head words by spaCy's dependency parser (papers/003, section 3.1)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from rayner.data.schema import Document, Span
from rayner.errors import InputError
from rayner.supervision.agreement import Heads, heads_by_rule

SPACY_MODEL = "en_core_web_sm"
HeadFinder = Literal["auto", "spacy", "rule"]


def head_finder(name: HeadFinder, model: str = SPACY_MODEL) -> tuple[str, Heads]:
    """How heads are found, and its name; `auto` is by spaCy where it and the model are installed.

    Raises:
        InputError: `spacy`, and it is not installed.
    """
    if name == "rule":
        return "rule", heads_by_rule
    try:
        _pipeline(model)
    except InputError:
        if name == "spacy":
            raise
        return "rule", heads_by_rule
    return f"spacy:{model}", ParsedHeads(model)


@dataclass(frozen=True, slots=True)
class ParsedHeads:
    """The root of each span in the parse of its document; of a span without a token, as by rule."""

    model: str

    def __call__(self, document: Document, spans: Sequence[Span]) -> list[Span]:
        """The heads of spans."""
        if not spans:
            return []
        parsed = _pipeline(self.model)(document.text)
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
def _pipeline(model: str) -> Any:
    try:
        spacy: Any = importlib.import_module("spacy")
        return spacy.load(model, exclude=["ner"])
    except (ImportError, OSError):
        hint = f"pip install spacy, then python -m spacy download {model}"
        raise InputError("--heads spacy", f"spaCy with the pipeline {model} is not installed", hint) from None
