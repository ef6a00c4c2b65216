"""Scores of recognition and linking together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from rayner.data.schema import Document, Mention
from rayner.metrics.counts import align
from rayner.metrics.spans import precision_recall_f1


def score_linked_spans(
    gold: Sequence[Document], predicted: Sequence[Document], types: Collection[str] | None = None
) -> dict[str, Any]:
    """A prediction is right if span, type and entity are; NIL mentions are left out on both sides.

    Args:
        types: those that count; None for all.

    Returns:
        `linked_precision, linked_recall, linked_f1`, micro, and `linked_support`, the gold mentions with an
        entity. 0 / 0 is 0.

    Raises:
        CorpusError: the ids of gold and predicted documents do not agree.
    """
    right = asked = given = 0
    for document, answer in align(gold, predicted):
        truth, found = _keys(document.mentions, types), _keys(answer.mentions, types)
        right += len(truth & found)
        asked += len(truth)
        given += len(found)
    scores = precision_recall_f1(*(np.array([n]) for n in (right, right, given, asked)))
    names = ("linked_precision", "linked_recall", "linked_f1")
    return {n: float(v[0]) for n, v in zip(names, scores, strict=True)} | {"linked_support": asked}


def _keys(mentions: Sequence[Mention], types: Collection[str] | None) -> set[tuple[int, int, str, str]]:
    return {
        (m.start, m.end, m.type, m.entity_id)
        for m in mentions
        if m.entity_id is not None and (types is None or m.type in types)
    }
