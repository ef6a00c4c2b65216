"""Counts of spans by definition: a number for each document and each type, whether it occurs or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rayner.data.schema import Document, Span
from rayner.metrics.counts import MATCHES, SpanCounts


def dense_counts(
    gold: Sequence[Document], predicted: Sequence[Document], types: Sequence[str]
) -> dict[str, np.ndarray]:
    """`predicted`, `gold` and, for each match, `correct MATCH` and `found MATCH`: [documents, types]."""
    tables = {name: np.zeros((len(gold), len(types)), np.int64) for name in _names()}
    answers = {document.document_id: document for document in predicted}
    for row, document in enumerate(gold):
        for column, name in enumerate(types):
            if document.annotated_types is not None and name not in document.annotated_types:
                continue
            right, given = (_spans(d, name) for d in (document, answers[document.document_id]))
            tables["gold"][row, column] = len(right)
            tables["predicted"][row, column] = len(given)
            for side, one, other in (("correct", given, right), ("found", right, given)):
                tables[f"{side} exact"][row, column] = len(one & other)
                for edge, match in enumerate(("start", "end")):
                    shared = Counter(span[edge] for span in one) & Counter(span[edge] for span in other)
                    tables[f"{side} {match}"][row, column] = shared.total()
                loose = sum(any(a[0] < b[1] and b[0] < a[1] for b in other) for a in one)
                tables[f"{side} loose"][row, column] = loose
    return tables


def spread(counts: SpanCounts) -> dict[str, np.ndarray]:
    """The same tables, from counts of what occurs."""
    cells = {"predicted": counts.predicted, "gold": counts.gold}
    cells |= {f"correct {match}": counts.correct[match] for match in MATCHES}
    cells |= {f"found {match}": counts.found[match] for match in MATCHES}
    tables = {name: np.zeros((counts.documents, len(counts.types)), np.int64) for name in _names()}
    for name, values in cells.items():
        tables[name][counts.rows, counts.columns] = values
    return tables


def _names() -> list[str]:
    return ["predicted", "gold", *(f"{side} {match}" for side in ("correct", "found") for match in MATCHES)]


def _spans(document: Document, name: str) -> set[Span]:
    return {(m.start, m.end) for m in document.mentions if m.type == name}
