"""Mentions of documents as items with fine types, for `typing.score_types`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rayner.data.fine_types import gold_types
from rayner.data.schema import Document
from rayner.metrics.judged_mentions import JudgedMentions

Items = list[Collection[str]]


def typed_items(gold: Sequence[Document], predicted: Sequence[Document]) -> tuple[Items, Items]:
    """The gold types and the predicted ones of each mention.

    A mention is known by its span, and several of one span are one. One that was not found has no predicted
    types; one that is not in gold has no gold types. Gold mentions whose types nobody said are left out, as
    are predicted types that a document was not annotated for.

    Raises:
        ValueError: the numbers of documents differ.
    """
    right: Items = []
    answered: Items = []
    for one, other in zip(gold, predicted, strict=True):
        annotated = None if one.annotated_types is None else set(one.annotated_types)
        found: dict[tuple[int, int], set[str]] = {}
        for mention in other.mentions:
            names = {n for n, _ in mention.types if annotated is None or n in annotated}
            found.setdefault((mention.start, mention.end), set()).update(names)
        spans = _types_by_span(one)
        for span, names in spans.items():
            if names:
                right.append(names)
                answered.append(found.get(span, ()))
        extra = [names for span, names in found.items() if span not in spans and names]
        right += [()] * len(extra)
        answered += extra
    return right, answered


def _types_by_span(gold: Document) -> dict[tuple[int, int], set[str]]:
    """The gold types of each span; of several mentions of one span, those of all."""
    found: dict[tuple[int, int], set[str]] = {}
    for mention in gold.mentions:
        found.setdefault((mention.start, mention.end), set()).update(gold_types(mention))
    return found


def judge_types(gold: Sequence[Document], predicted: Sequence[Document]) -> JudgedMentions:
    """Whether each predicted fine type of a mention is right; without margins.

    Gold mentions whose types nobody said are left out, as are types that a document was not annotated for.

    Raises:
        ValueError: the numbers of documents differ.
    """
    rows: list[tuple[str, float, bool]] = []
    for one, other in zip(gold, predicted, strict=True):
        annotated = None if one.annotated_types is None else set(one.annotated_types)
        right = _types_by_span(one)
        for mention in other.mentions:
            names = right.get((mention.start, mention.end))
            if names is None or names:
                kept = [(n, s) for n, s in mention.types if annotated is None or n in annotated]
                rows += [(name, score, name in (names or ())) for name, score in kept]
    names, scores, is_right = zip(*rows, strict=True) if rows else ((), (), ())
    margins = np.full(len(rows), np.nan)
    return JudgedMentions(np.array(names, object), np.array(scores, float), margins, np.array(is_right, bool))
