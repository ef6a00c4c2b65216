"""Mentions of documents as items with fine types, for `typing.score_types`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from rayner.data.fine_types import SpanTypes, annotated_of, is_among, looked_for, types_by_span
from rayner.data.schema import Document, Mention, Span
from rayner.metrics.judged_mentions import JudgedMentions

Items = list[Collection[str]]


def typed_items(gold: Sequence[Document], predicted: Sequence[Document]) -> tuple[Items, Items]:
    """The gold types and the predicted ones of each mention.

    A mention is known by its span, and several of one span are one. One that was not found has no predicted
    types; one that is not in gold has no gold types. Gold mentions whose types nobody said are left out, as
    are types that nobody looked for (see `looked_for`), in gold and predicted.

    Raises:
        ValueError: the numbers of documents differ.
    """
    right: Items = []
    answered: Items = []
    for one, other in zip(gold, predicted, strict=True):
        spans = types_by_span(one)
        found: dict[Span, set[str]] = {}
        for mention, types in _answers(spans, one, other):
            found.setdefault((mention.start, mention.end), set()).update(name for name, _ in types)
        for span, (names, _, said) in spans.items():
            types = found.get(span, ())
            if names or (said and types):
                right.append(set(names))
                answered.append(types)
        extra = [names for span, names in found.items() if span not in spans and names]
        right += [()] * len(extra)
        answered += extra
    return right, answered


def _answers(
    right: Mapping[Span, SpanTypes], gold: Document, predicted: Document
) -> Iterator[tuple[Mention, list[tuple[str, float]]]]:
    """The predicted mentions with those of their types that somebody looked for."""
    annotated = annotated_of(gold)
    for mention in predicted.mentions:
        of_span = right.get((mention.start, mention.end))
        looked = of_span.looked_for if of_span else looked_for(mention, annotated)
        yield mention, [(name, score) for name, score in mention.types if is_among(name, looked)]


def judge_types(gold: Sequence[Document], predicted: Sequence[Document]) -> JudgedMentions:
    """Whether each predicted fine type of a mention is right; without margins.

    As `typed_items`, it leaves out gold mentions whose types nobody said, and types that nobody looked for.

    Raises:
        ValueError: the numbers of documents differ.
    """
    rows: list[tuple[str, float, bool]] = []
    for one, other in zip(gold, predicted, strict=True):
        right = types_by_span(one)
        for mention, types in _answers(right, one, other):
            of_span = right.get((mention.start, mention.end))
            if of_span is None or of_span.said:
                names = of_span.names if of_span else ()
                rows += [(name, score, name in names) for name, score in types]
    names, scores, is_right = zip(*rows, strict=True) if rows else ((), (), ())
    margins = np.full(len(rows), np.nan)
    return JudgedMentions(np.array(names, object), np.array(scores, float), margins, np.array(is_right, bool))
