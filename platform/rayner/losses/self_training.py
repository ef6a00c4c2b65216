"""Self-training: a student learns what a teacher is sure of, and the rest is left open.

The teacher has an exponential moving average of the student's weights (Tarvainen and Valpola 2017, Mean
Teacher). That it comes after a first stage on labels of a dictionary, and that only its confident decisions
count, as soft labels, is from Liang et al. 2020 (BOND); see also Meng et al. 2021 (RoSTER).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.span_contrast import SpanScores, SpanTargets, candidate_spans


class TeacherLabels(NamedTuple):
    """What a teacher says of the spans of a batch, in the cells of `SpanScores.span`: [B, K, L, W] each."""

    margins: Tensor
    """its scores over their thresholds: the log odds that a span is a mention"""
    sure: Tensor
    """bool: the candidate spans that it decides with enough confidence"""
    open: Tensor
    """bool: the candidate spans that are not surely no mention"""


def teacher_labels(scores: SpanScores, targets: SpanTargets, confidence: float) -> TeacherLabels:
    """The labels of the spans of the types that each window was annotated for, from a teacher's scores.

    Args:
        confidence: how probable the decision about a span must be, above 0.5.
    """
    margins = _margins(scores)
    candidates = candidate_spans(targets.word_start, targets.word_end, margins.shape[3]).unsqueeze(1)
    candidates = candidates & targets.known[:, :, None, None]
    bar = torch.special.logit(torch.tensor(confidence, dtype=torch.float64)).to(margins.dtype)
    return TeacherLabels(margins, candidates & (margins.abs() >= bar), candidates & (margins > -bar))


def left_open(targets: SpanTargets, labels: TeacherLabels) -> SpanTargets:
    """The targets, in which spans that the teacher does not surely hold for none are no negatives."""
    window, kind, first, width = labels.open.nonzero().unbind(1)
    spans = torch.stack([window, kind, first, first + width], 1)
    return targets._replace(excluded_spans=torch.cat([targets.excluded_spans, spans]))


def distillation(scores: SpanScores, labels: TeacherLabels) -> Tensor:
    """The sum over the spans that the teacher is sure of of KL(q || p), a scalar.

    q = sigmoid(teacher's margin) and p = sigmoid(student's margin) are how probable it is that a span is a
    mention, by its score over the threshold of its window and type:

        KL(q || p) = q log(q / p) + (1 - q) log((1 - q) / (1 - p))

    Its gradient is that of cross-entropy with soft labels, as in Liang et al. 2020, who sharpen the labels of
    types; those of spans are taken as they are. Divide by the mentions.
    """
    teacher, student = labels.margins, _margins(scores)
    share = teacher.sigmoid()
    of_mention = share * (F.logsigmoid(teacher) - F.logsigmoid(student))
    of_none = (1 - share) * (F.logsigmoid(-teacher) - F.logsigmoid(-student))
    return torch.where(labels.sure, of_mention + of_none, 0).sum()


def _margins(scores: SpanScores) -> Tensor:
    return scores.span - scores.span_threshold[:, :, None, None]
