"""What every span metric is computed from: counts per document and type, for mentions that may nest."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rayner.data.schema import UNKNOWN, Document, Span
from rayner.errors import CorpusError

MATCHES = ("exact", "start", "end", "loose")

Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class SpanCounts:
    """Counts of a corpus, integer arrays [cells]: one cell for each document and type with a mention in it.

    Cell i counts mentions of type `types[columns[i]]` in document number `rows[i]` of `documents`. So memory
    grows with what occurs, not with documents times types.

    `correct[match]` counts predicted mentions that match a gold one, `found[match]` gold mentions that match
    a predicted one; the two differ only for "loose", where one mention may overlap several.
    `ignored` counts predictions of types that their document was not annotated for.
    """

    types: tuple[str, ...]
    documents: int
    rows: np.ndarray
    columns: np.ndarray
    predicted: np.ndarray
    gold: np.ndarray
    correct: dict[str, np.ndarray]
    found: dict[str, np.ndarray]
    ignored: int

    def per_type(self, counts: np.ndarray) -> np.ndarray:
        """Sums [types] of counts [cells]."""
        sums = np.zeros(len(self.types), np.int64)
        np.add.at(sums, self.columns, counts)
        return sums


def align(gold: Sequence[Document], predicted: Sequence[Document]) -> list[tuple[Document, Document]]:
    """Pairs of gold and predicted document, in the order of `gold`.

    Raises:
        CorpusError: an id that occurs twice, or in only one of the two.
    """
    by_id = {document.document_id: document for document in predicted}
    for name, documents in (("gold", gold), ("predicted", predicted)):
        count = Counter(document.document_id for document in documents)
        if len(count) < len(documents):
            twice = next(document_id for document_id, times in count.items() if times > 1)
            raise CorpusError(
                f"{name} document {twice!r}", "the id occurs twice", "give each document its own id"
            )
    known = {document.document_id for document in gold}
    for name, absent in (("predicted", known - by_id.keys()), ("gold", by_id.keys() - known)):
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            what = f"not among the {name} documents{more}"
            raise CorpusError(
                f"document {min(absent)!r}", what, "score predictions against the corpus they were made from"
            )
    return [(document, by_id[document.document_id]) for document in gold]


def mention_keys(document: Document, types: Collection[str] | None) -> set[Key]:
    """The document's mentions as (start, end, type); a mention given twice counts once.

    Each mention is looked up in `types`: where there are many, give a set or a mapping.
    """
    return {(m.start, m.end, m.type) for m in document.mentions if types is None or m.type in types}


def looked_for(documents: Sequence[Document], types: Collection[str] | None) -> Sequence[Document]:
    """The documents without mentions of other types than these, or as they are (None). Those of which nobody
    knows what they are stay."""
    if types is None:
        return documents
    kept = {*types, UNKNOWN}
    return [replace(d, mentions=tuple(m for m in d.mentions if m.type in kept)) for d in documents]


def marked_unknown(gold: Document) -> set[Span]:
    """The spans of which nobody knows what they are."""
    return {(mention.start, mention.end) for mention in gold.mentions if mention.type == UNKNOWN}


def annotated_keys(
    gold: Document, predicted: Document, types: Collection[str] | None
) -> tuple[set[Key], set[Key], int]:
    """Gold and predicted mentions that are right or wrong; the number of other predictions: those of types
    that `gold` was not annotated for, and those of a span of which nobody knows what it is."""
    gold_keys, predicted_keys = mention_keys(gold, types), mention_keys(predicted, types)
    unknown = marked_unknown(gold)
    known = None if gold.annotated_types is None else set(gold.annotated_types)

    def judged(key: Key) -> bool:
        return (known is None or key[2] in known) and key[:2] not in unknown

    kept = set(filter(judged, predicted_keys))
    return set(filter(judged, gold_keys)), kept, len(predicted_keys) - len(kept)


def count_spans(
    gold: Sequence[Document], predicted: Sequence[Document], types: Sequence[str] | None = None
) -> SpanCounts:
    """Count matches per document and type.

    Types of the list that no document has cost nothing but their name.

    Args:
        gold, predicted: the same documents, by `document_id`, in any order.
        types: the types to count, both in gold and predictions; None means those that occur.

    Raises:
        CorpusError: the ids of the two do not agree.
    """
    wanted = None if types is None else frozenset(types)
    cells: list[tuple[int, str, list[int]]] = []
    ignored = 0
    for row, (gold_document, predicted_document) in enumerate(align(gold, predicted)):
        gold_keys, keys, others = annotated_keys(gold_document, predicted_document, wanted)
        ignored += others
        gold_spans, spans = _by_type(gold_keys), _by_type(keys)
        for name in gold_spans.keys() | spans.keys():
            cells.append((row, name, _count_type(gold_spans.get(name, []), spans.get(name, []))))
    order = tuple(sorted({name for _, name, _ in cells}) if types is None else dict.fromkeys(types))
    column = {name: i for i, name in enumerate(order)}
    table = np.array([counts for _, _, counts in cells], np.int64).reshape(-1, 2 + 2 * len(MATCHES)).T
    return SpanCounts(
        types=order,
        documents=len(gold),
        rows=np.array([row for row, _, _ in cells], np.int64),
        columns=np.array([column[name] for _, name, _ in cells], np.int64),
        predicted=table[0],
        gold=table[1],
        correct={match: table[2 + 2 * i] for i, match in enumerate(MATCHES)},
        found={match: table[3 + 2 * i] for i, match in enumerate(MATCHES)},
        ignored=ignored,
    )


def _by_type(keys: Iterable[Key]) -> dict[str, list[Span]]:
    spans: dict[str, list[Span]] = {}
    for start, end, name in keys:
        spans.setdefault(name, []).append((start, end))
    return spans


def _count_type(gold: list[Span], predicted: list[Span]) -> list[int]:
    # Nested mentions share starts and ends, so these match as multisets: each mention counts once.
    exact = len(set(gold) & set(predicted))
    start = (Counter(s for s, _ in gold) & Counter(s for s, _ in predicted)).total()
    end = (Counter(e for _, e in gold) & Counter(e for _, e in predicted)).total()
    loose = [_overlapping(predicted, gold), _overlapping(gold, predicted)]
    return [len(predicted), len(gold), exact, exact, start, start, end, end, *loose]


def _overlapping(spans: list[Span], others: list[Span]) -> int:
    """How many of `spans` share a character with any of `others`, in O(n log n)."""
    starts, ends = sorted(s for s, _ in others), sorted(e for _, e in others)
    return sum(bisect_left(starts, end) > bisect_right(ends, start) for start, end in spans)
