"""Predicted mentions, each with its score and whether it is right: what calibration is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from rayner.data.schema import Document
from rayner.metrics.counts import align, annotated_keys
from rayner.metrics.reliability import reliability


class JudgedMentions(NamedTuple):
    """Predicted mentions that have a score, [N] each; `margin` is NaN where there is none."""

    type: np.ndarray
    score: np.ndarray
    margin: np.ndarray
    right: np.ndarray


def judge_mentions(
    gold: Sequence[Document], predicted: Sequence[Document], types: Collection[str] | None = None
) -> JudgedMentions:
    """Whether each predicted mention is right: its start, end and type are those of a gold one.

    Those of types that their document was not annotated for are left out.

    Args:
        gold, predicted: the same documents, by `document_id`, in any order.
        types: the types to judge; None means all.

    Raises:
        CorpusError: the ids of the two do not agree.
    """
    wanted = None if types is None else frozenset(types)
    rows: list[tuple[str, float, float, bool]] = []
    for document, answer in align(gold, predicted):
        gold_keys, keys, _ = annotated_keys(document, answer, wanted)
        for mention in answer.mentions:
            key = (mention.start, mention.end, mention.type)
            if key in keys and mention.score is not None:
                margin = np.nan if mention.margin is None else mention.margin
                rows.append((mention.type, mention.score, margin, key in gold_keys))
    names, scores, margins, right = zip(*rows, strict=True) if rows else ((), (), (), ())
    return JudgedMentions(
        np.array(names, object), np.array(scores, float), np.array(margins, float), np.array(right, bool)
    )


def score_calibration_error(
    gold: Sequence[Document], predicted: Sequence[Document], types: Collection[str] | None = None
) -> dict[str, Any]:
    """`calibration_error`: the expected calibration error of the scores, over ten bins of equal weight
    (`Reliability.error`); nothing where no mention has a score."""
    judged = judge_mentions(gold, predicted, types)
    return {"calibration_error": reliability(judged.score, judged.right).error} if len(judged.score) else {}
