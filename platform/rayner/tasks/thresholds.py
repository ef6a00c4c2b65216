"""Global thresholds tuned on dev (papers/000, section 4, table 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rayner.data.schema import Document
from rayner.metrics.counts import annotated_keys
from rayner.metrics.thresholds import best_shift, candidates_from_columns
from rayner.tasks.document_task import DocumentTask
from rayner.tasks.recognize import Recognizer
from rayner.tasks.span_tables import ScoredSpans, scored_spans


def tuned_thresholds(task: DocumentTask, recognizer: Recognizer, dev: Sequence[Document]) -> Tensor:
    """The threshold of each type with the best F1 on dev: [K, 3], of start, end and span.

    Only spans are tuned: starts and ends have no threshold of their own (negative infinity), so that joint
    inference asks for nothing more. A type without a mention on dev that can be found has the mean of the
    others. Mentions that cannot (wider than the model's spans, or of parts of words) count as missed.
    """
    best: dict[str, float] = {}
    parts = list(scored_spans(task, recognizer, dev))
    if parts:
        spans = ScoredSpans(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        types = np.array(task.names)[spans.type]
        names = frozenset(task.names)
        support = Counter(key[2] for d in dev for key in annotated_keys(d, d, names)[0])
        for name, candidates in candidates_from_columns(types, spans.score, spans.gold, support).items():
            if candidates.gold.any():
                best[name] = best_shift(candidates)["shift"]
    thresholds = torch.full((len(task.names), 3), -torch.inf)
    thresholds[:, 2] = sum(best.values()) / max(len(best), 1)
    for name, threshold in best.items():
        thresholds[task.names.index(name), 2] = threshold
    return thresholds
