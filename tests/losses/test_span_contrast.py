"""The objective against its definition: loops over mentions, types and candidate spans."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rayner.config import ContrastSettings
from rayner.losses.span_contrast import SpanScores, SpanTargets, loss_weights, span_contrast
from tests.losses.drawn_spans import (
    LENGTH,
    TYPES,
    WIDTHS,
    WINDOWS,
    random_scores,
    some_targets,
)


def by_definition(
    scores: SpanScores,
    targets: SpanTargets,
    in_denominator: bool,
    thresholded: bool,
    smoothing: float = 0.0,
) -> dict[str, Tensor]:
    gold = [tuple(row) for row in targets.gold.tolist()]
    parts = {
        f"{p}{s}": torch.zeros((), dtype=torch.float64)
        for p in ("start", "end", "span")
        for s in ("", "_threshold")
    }

    def negatives(part: str, b: int, k: int) -> list[Tensor]:
        mine = [(i, j) for bb, kk, i, j in gold if (bb, kk) == (b, k)]
        open_ = [(i, j) for bb, kk, i, j in targets.excluded_spans.tolist() if (bb, kk) == (b, k)]
        if part == "span":
            return [
                scores.span[b, k, i, j - i]
                for i in range(LENGTH)
                for j in range(i, min(LENGTH, i + WIDTHS))
                if targets.word_start[b, i] and targets.word_end[b, j] and (i, j) not in {*mine, *open_}
            ]
        allowed = targets.word_start if part == "start" else targets.word_end
        excluded = targets.excluded_starts if part == "start" else targets.excluded_ends
        out = {m[0 if part == "start" else 1] for m in (*mine, *open_)} | {
            n for bb, kk, n in excluded.tolist() if (bb, kk) == (b, k)
        }
        return [getattr(scores, part)[b, k, n] for n in range(LENGTH) if allowed[b, n] and n not in out]

    def beside(b: int, k: int, i: int, j: int) -> list[Tensor]:
        starts = [n for n in range(LENGTH) if targets.word_start[b, n]]
        ends = [n for n in range(LENGTH) if targets.word_end[b, n]]
        near = [(n, j) for n in (max((s for s in starts if s < i), default=-1),) if n >= 0]
        near += [(n, j) for n in (min((s for s in starts if s > i), default=-1),) if n >= 0]
        near += [(i, n) for n in (max((e for e in ends if e < j), default=-1),) if n >= 0]
        near += [(i, n) for n in (min((e for e in ends if e > j), default=-1),) if n >= 0]
        mine = [(first, last) for bb, kk, first, last in gold if (bb, kk) == (b, k)]
        return [
            scores.span[b, k, first, last - first]
            for first, last in near
            if 0 <= last - first < WIDTHS
            and (first, last) not in mine
            and [b, k, first, last] not in targets.excluded_spans.tolist()
            and targets.word_start[b, first]
            and targets.word_end[b, last]
        ]

    for part in ("start", "end", "span"):
        threshold = getattr(scores, f"{part}_threshold")
        for b in range(WINDOWS):
            for k in range(TYPES):
                if thresholded and targets.known[b, k]:
                    among = torch.stack([threshold[b, k], *negatives(part, b, k)])
                    parts[f"{part}_threshold"] = (
                        parts[f"{part}_threshold"] + among.logsumexp(0) - threshold[b, k]
                    )
        for b, k, i, j in gold:
            if not targets.known[b, k] or (part == "span" and j - i >= WIDTHS):
                continue
            score = (
                scores.span[b, k, i, j - i]
                if part == "span"
                else getattr(scores, part)[b, k, i if part == "start" else j]
            )
            among = [score, *negatives(part, b, k)]
            if thresholded and in_denominator:
                among.append(threshold[b, k])
            goal = score
            if part == "span" and (near := beside(b, k, i, j)):
                goal = (1 - smoothing) * score + smoothing * torch.stack(near).mean()
            parts[part] = parts[part] + torch.stack(among).logsumexp(0) - goal
    return parts


CASES = {
    "plain": some_targets(),
    "partly annotated": some_targets(known=torch.tensor([[True, False], [True, True], [False, False]])),
    "mentions cut by the edge": some_targets(
        excluded_starts=torch.tensor([[0, 1, 6], [2, 0, 1]]), excluded_ends=torch.tensor([[1, 0, 1]])
    ),
    "spans of which nothing is known": some_targets(
        excluded_spans=torch.tensor([[0, 0, 3, 4], [0, 1, 2, 2], [1, 0, 1, 4], [1, 1, 4, 4], [2, 1, 5, 6]])
    ),
    "no mention": some_targets(gold=torch.zeros(0, 4, dtype=torch.long)),
    "the same mention twice": some_targets(gold=torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1]])),
}


@pytest.mark.parametrize("targets", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("in_denominator", [True, False])
@pytest.mark.parametrize("thresholded", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_value_and_gradient_are_those_of_the_definition(
    targets: SpanTargets, in_denominator: bool, thresholded: bool, smoothing: float
) -> None:
    scores = random_scores()
    settings = ContrastSettings(threshold_in_denominator=in_denominator, boundary_smoothing=smoothing)
    found = span_contrast(scores, targets, settings, thresholded=thresholded)
    expected = by_definition(scores, targets, in_denominator, thresholded, smoothing)
    assert found.keys() == expected.keys()
    for part, value in expected.items():
        torch.testing.assert_close(found[part], value, rtol=0, atol=1e-10, msg=part)

    weights = {part: 1 + index for index, part in enumerate(expected)}  # tells the parts apart
    of_found = torch.autograd.grad(sum(weights[p] * v for p, v in found.items()), scores, allow_unused=True)
    slow = sum(weights[p] * v for p, v in expected.items())
    differentiable = slow.requires_grad
    of_expected = torch.autograd.grad(slow, scores, allow_unused=True) if differentiable else (None,) * 6
    for name, one, other in zip(SpanScores._fields, of_found, of_expected, strict=True):
        zero = torch.zeros_like(getattr(scores, name))
        torch.testing.assert_close(zero if one is None else one, zero if other is None else other, msg=name)


@pytest.mark.parametrize("in_denominator", [True, False])
@pytest.mark.parametrize("thresholded", [True, False])
def test_without_any_candidate_loss_and_gradients_are_finite(in_denominator: bool, thresholded: bool) -> None:
    nowhere = torch.zeros(WINDOWS, LENGTH, dtype=torch.bool)
    scores = random_scores()
    settings = ContrastSettings(threshold_in_denominator=in_denominator)
    targets = some_targets(word_start=nowhere, word_end=nowhere)
    loss = torch.stack(list(span_contrast(scores, targets, settings, thresholded=thresholded).values())).sum()
    assert math.isfinite(loss.item())
    for gradient in torch.autograd.grad(loss, scores, allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


def test_a_mention_wider_than_the_band_counts_by_start_and_end() -> None:
    wide = some_targets(gold=torch.tensor([[0, 0, 1, 6]]))
    sums = span_contrast(random_scores(), wide, ContrastSettings())
    assert sums["span"] == 0
    assert sums["start"] > 0
    assert sums["end"] > 0


def test_smoothing_moves_weight_only_where_a_span_lies_beside_the_mention() -> None:
    """Of one mention alone, of one with neighbours, and of one whose neighbours are mentions, too."""
    scores, one = random_scores(), torch.zeros(WINDOWS, LENGTH, dtype=torch.bool)
    one[0, 2] = True
    full = some_targets()
    nested = torch.tensor([[2, 0, 1, 1], [2, 0, 1, 2], [2, 0, 2, 2]])
    only = some_targets(word_start=one, word_end=one, gold=torch.tensor([[0, 0, 2, 2]]))
    inner = torch.zeros(WINDOWS, LENGTH, dtype=torch.bool)
    inner[2, 1:3] = True
    closed = some_targets(word_start=inner, word_end=inner, gold=nested)
    for targets, moves in ((only, False), (closed, False), (full, True)):
        plain, smooth = (
            span_contrast(scores, targets, ContrastSettings(boundary_smoothing=e))["span"] for e in (0, 0.3)
        )
        assert (plain != smooth) == moves


def test_large_scores_stay_finite_in_float32() -> None:
    scores = SpanScores(*(s.detach().float() * 1e3 for s in random_scores()))
    sums = span_contrast(scores, some_targets(), ContrastSettings())
    assert all(value.dtype == torch.float32 and value.isfinite() for value in sums.values())


def test_gradcheck() -> None:
    targets = some_targets(known=torch.tensor([[True, False], [True, True], [True, True]]))
    inputs = tuple(random_scores(3))

    def loss(*scores: Tensor) -> Tensor:
        return torch.stack(list(span_contrast(SpanScores(*scores), targets, ContrastSettings()).values()))

    assert torch.autograd.gradcheck(loss, inputs)


def test_published_weights() -> None:
    weights = loss_weights(ContrastSettings())
    assert weights == pytest.approx(
        {
            "start": 0.1,
            "end": 0.1,
            "span": 0.3,
            "start_threshold": 0.1,
            "end_threshold": 0.1,
            "span_threshold": 0.3,
        }
    )
    tuned = loss_weights(ContrastSettings(), thresholded=False)
    assert tuned["span"] == 0.6
    assert tuned["span_threshold"] == 0


def test_no_span_beside_a_mention_ends_before_it_begins() -> None:
    # Of one word alone, the cells of (3, 2) and (2, 1) would be those of the spans (2, 5) and (1, 4).
    words = torch.zeros(1, 7, dtype=torch.bool)
    words[0, 1:6] = True
    span = torch.zeros(1, 1, 7, 4)
    span[0, 0, 2, 3] = span[0, 0, 1, 3] = 1.0
    zeros, threshold = torch.zeros(1, 1, 7), torch.zeros(1, 1)
    scores = SpanScores(zeros, zeros, span, threshold, threshold, threshold)
    none, known = torch.zeros(0, 3, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool)
    gold, open_ = torch.tensor([[0, 0, 2, 2]]), torch.zeros(0, 4, dtype=torch.long)
    targets = SpanTargets(words, words, gold, known, none, none, open_)
    plain, smooth = (
        span_contrast(scores, targets, ContrastSettings(boundary_smoothing=e))["span"] for e in (0.0, 0.3)
    )
    assert plain == smooth
