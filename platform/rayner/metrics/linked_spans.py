"""Scores of recognition and linking together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from rayner.data.schema import Document
from rayner.metrics.counts import Key, align, annotated_keys
from rayner.metrics.spans import precision_recall_f1


def score_linked_spans(gold: Sequence[Document], predicted: Sequence[Document]) -> dict[str, Any]:
    """A prediction is right if span, type and entity are.

    Left out on both sides are NIL mentions, and those of types that their document was not annotated for.

    Returns:
        `linked_precision, linked_recall, linked_f1`, micro, and `linked_support`, the gold mentions with an
        entity. Without one, the others are None.

    Raises:
        CorpusError: the ids of gold and predicted documents do not agree.
    """
    right = asked = given = 0
    for document, answer in align(gold, predicted):
        truth, answers = map(_linked, (document, answer), annotated_keys(document, answer, None)[:2])
        right += len(truth & answers)
        asked += len(truth)
        given += len(answers)
    scores = precision_recall_f1(*(np.array([n]) for n in (right, right, given, asked)))
    names = ("linked_precision", "linked_recall", "linked_f1")
    found = {n: float(v[0]) if asked else None for n, v in zip(names, scores, strict=True)}
    return {**found, "linked_support": asked}


def _linked(document: Document, keys: Collection[Key]) -> set[tuple[Key, str]]:
    found = (((m.start, m.end, m.type), m.entity_id) for m in document.mentions)
    return {(key, entity_id) for key, entity_id in found if entity_id is not None and key in keys}
