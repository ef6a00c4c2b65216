"""What kind of mistake each wrong prediction and each missed mention is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rayner.data.schema import Document, Span
from rayner.metrics.counts import Key, align, annotated_keys

T = TypeVar("T")

CATEGORIES: tuple[str, ...] = ("boundary", "type", "boundary_and_type", "missed", "spurious")


@dataclass(frozen=True, slots=True)
class SpanError:
    """A mistake: a gold and a predicted (start, end, type); None where there is no such mention."""

    document_id: str
    category: str
    gold: Key | None
    predicted: Key | None

    @property
    def type(self) -> str:
        """The gold type; for a spurious prediction, the predicted one."""
        key = self.gold or self.predicted
        assert key is not None
        return key[2]

    @property
    def span(self) -> Span:
        """From where the first of the two begins to where the last ends."""
        keys = [key for key in (self.gold, self.predicted) if key is not None]
        return min(start for start, _, _ in keys), max(end for _, end, _ in keys)


def categorize(
    gold: Sequence[Document], predicted: Sequence[Document], types: Sequence[str] | None = None
) -> list[SpanError]:
    """The mistakes of each document, by position.

    Mentions that match exactly are set aside. Of the rest, overlapping gold and predicted mentions are paired
    one to one, best first: "type" (same span), "boundary" (same type), "boundary_and_type"; within a category
    by the share of common characters. What is left over is "missed" or "spurious". So each paired mistake
    is a false positive and a false negative, the others for one of them.

    Raises:
        CorpusError: the ids of gold and predicted documents do not agree.
    """
    errors: list[SpanError] = []
    wanted = None if types is None else frozenset(types)
    for gold_document, predicted_document in align(gold, predicted):
        gold_keys, keys, _ = annotated_keys(gold_document, predicted_document, wanted)
        found = _pair(gold_document.document_id, sorted(gold_keys - keys), sorted(keys - gold_keys))
        errors.extend(sorted(found, key=lambda error: (error.span, error.type)))
    return errors


def summarize_errors(
    errors: Sequence[SpanError], documents: Sequence[Document], *, examples: int = 10, context: int = 60
) -> dict[str, Any]:
    """Counts of the mistakes, and examples in context.

    Args:
        errors: from `categorize`.
        documents: the gold documents, for their text.
        examples: at most so many a category, spread evenly over the corpus.
        context: characters of text to either side.

    Returns:
        `counts`: category -> mistakes; `per_type`: type -> category -> mistakes; `examples`: category -> rows
        `document_id, left, text, right, gold, predicted`, where `text` covers both mentions, and these are
        None or `start, end, type` with offsets into `text`.
    """
    texts = {document.document_id: document.text for document in documents}
    by_category = {name: [error for error in errors if error.category == name] for name in CATEGORIES}
    per_type = {name: dict.fromkeys(CATEGORIES, 0) for name in sorted({error.type for error in errors})}
    for error in errors:
        per_type[error.type][error.category] += 1
    return {
        "counts": {name: len(found) for name, found in by_category.items()},
        "per_type": per_type,
        "examples": {
            name: [_example(error, texts[error.document_id], context) for error in spread(found, examples)]
            for name, found in by_category.items()
        },
    }


def _pair(document_id: str, gold: list[Key], predicted: list[Key]) -> list[SpanError]:
    longest = max((end - start for start, end, _ in gold), default=0)
    pairs: list[tuple[int, float, Key, Key]] = []
    for key in predicted:
        for other in gold[bisect_left(gold, (key[0] - longest, 0, "")) : bisect_left(gold, (key[1], 0, ""))]:
            if other[1] > key[0]:
                pairs.append((*_rank(other, key), other, key))
    free_gold, free_predicted = set(gold), set(predicted)
    errors: list[SpanError] = []
    for category, _, other, key in sorted(pairs):
        if other in free_gold and key in free_predicted:
            free_gold.remove(other)
            free_predicted.remove(key)
            errors.append(
                SpanError(document_id, ("type", "boundary", "boundary_and_type")[category], other, key)
            )
    errors += [SpanError(document_id, "missed", key, None) for key in free_gold]
    return errors + [SpanError(document_id, "spurious", None, key) for key in free_predicted]


def _rank(gold: Key, predicted: Key) -> tuple[int, float]:
    """Index of the category in order of preference, and minus the share of common characters."""
    if gold[:2] == predicted[:2]:
        return 0, -1.0
    common = min(gold[1], predicted[1]) - max(gold[0], predicted[0])
    both = max(gold[1], predicted[1]) - min(gold[0], predicted[0])
    return (1 if gold[2] == predicted[2] else 2), -common / both


def spread(mistakes: Sequence[T], count: int) -> Sequence[T]:
    """At most so many of the mistakes, evenly over all of them."""
    if len(mistakes) <= count:
        return mistakes
    return [mistakes[i * len(mistakes) // count] for i in range(count)]


def _example(error: SpanError, text: str, context: int) -> dict[str, Any]:
    start, end = error.span
    return {
        "document_id": error.document_id,
        "left": ("…" if start > context else "") + text[max(0, start - context) : start],
        "text": text[start:end],
        "right": text[end : end + context] + ("…" if end + context < len(text) else ""),
        "gold": _relative(error.gold, start),
        "predicted": _relative(error.predicted, start),
    }


def _relative(key: Key | None, origin: int) -> dict[str, Any] | None:
    return None if key is None else {"start": key[0] - origin, "end": key[1] - origin, "type": key[2]}
