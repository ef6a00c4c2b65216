"""Which spans of windows are mentions: what `select` says of all scores, and `find_spans` without them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rayner.config import SpanDecoding
from rayner.errors import InputError
from rayner.losses.span_contrast import SpanScores, candidate_spans
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.span_search import Rule, blocks, spans_above

_SPANS_ALONE = Rule()
MOST_FOUND = 1_000_000
"""Spans of a batch, beyond which their list takes more memory than anything else."""


def rule_of(decoding: SpanDecoding) -> Rule:
    """What of the settings decides about a span by itself."""
    return Rule(decoding.start_weight, decoding.end_weight, decoding.joint)


class Selected(NamedTuple):
    """Spans above their threshold, in order of window, type, start, end; each tensor has one entry a span."""

    window: Tensor
    type: Tensor
    start: Tensor
    """The first sub-word"""
    end: Tensor
    """The last sub-word, included"""
    score: Tensor
    margin: Tensor
    """score - threshold"""


def find_spans(
    model: BiEncoder,
    ids: Tensor,
    mask: Tensor,
    types: TypeVectors,
    word_start: Tensor,
    word_end: Tensor,
    shift: float | Tensor = 0.0,
    *,
    rule: Rule = _SPANS_ALONE,
    most: int | None = None,
) -> Selected:
    """What `select` picks from the windows `ids` [B, L], without ever holding all scores of many types.

    The other arguments are those of `BiEncoder.forward` and `select`.

    Raises:
        InputError: more than `most` score above their thresholds.
    """
    windows = model.windows(model.encode_text(ids, mask))
    found: list[Selected] = []
    count = 0
    for part in blocks(len(types.span), ids.numel()):
        parts = model.parts(windows, types.part(part), spans_alone=rule.spans_alone)
        shift_of_part = shift[part] if isinstance(shift, Tensor) and shift.ndim else shift
        threshold = rule.threshold(parts)
        above = spans_above(parts, word_start, word_end, threshold + shift_of_part, rule)
        margin = above.score - threshold[above.window, above.type]
        end = above.start + above.width
        count += len(margin)
        if count > (most or math.inf):
            what = f"lets more than {most:,} spans of a few windows through"
            raise InputError("shift", what, "raise it, or ask for fewer types at once")
        found.append(Selected(above.window, above.type + part.start, above.start, end, above.score, margin))
    if len(found) == 1:
        return found[0]
    merged = Selected(*map(torch.cat, zip(*found, strict=True)))
    order = merged.window.argsort(stable=True)
    return Selected(*(column[order] for column in merged))


def select(
    scores: SpanScores,
    word_start: Tensor,
    word_end: Tensor,
    shift: float | Tensor = 0.0,
    *,
    rule: Rule = _SPANS_ALONE,
) -> Selected:
    """All spans from a word's start to a word's end that score above their type's threshold, by their scores.

    Args:
        scores: of a batch of windows.
        word_start: bool [B, L], false at special tokens and padding.
        word_end: bool [B, L], likewise.
        shift: added to the threshold of spans; one number, or one a type, [K].
        rule: the weights of starts and ends, and whether they must reach their thresholds.
    """
    scores = rule.scores(scores)
    widths = scores.span.shape[3]
    bar = scores.span_threshold + shift
    found = scores.span > bar[:, :, None, None]
    found &= candidate_spans(word_start, word_end, widths).unsqueeze(1)
    if rule.joint:
        starts = scores.start >= scores.start_threshold.unsqueeze(2)
        ends = scores.end >= scores.end_threshold.unsqueeze(2)
        found &= candidate_spans(starts.flatten(0, 1), ends.flatten(0, 1), widths).view_as(found)
    window, kind, start, width = found.nonzero(as_tuple=True)
    score = scores.span[window, kind, start, width]
    return Selected(window, kind, start, start + width, score, score - scores.span_threshold[window, kind])
