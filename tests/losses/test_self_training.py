"""What a student learns from a teacher, against its definition: loops over windows, types and spans."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rayner.config import ContrastSettings
from rayner.losses.self_training import distillation, left_open, teacher_labels
from rayner.losses.span_contrast import SpanScores, SpanTargets, span_contrast
from tests.losses.drawn_spans import LENGTH, TYPES, WIDTHS, WINDOWS, random_scores, some_targets

KNOWN = torch.tensor([[True, True], [False, True], [True, True]])


def candidates(targets: SpanTargets) -> list[tuple[int, int, int, int]]:
    """Window, type, first and last sub-word of every span from a word's start to a word's end."""
    return [
        (b, k, i, j)
        for b in range(WINDOWS)
        for k in range(TYPES)
        for i in range(LENGTH)
        for j in range(i, min(LENGTH, i + WIDTHS))
        if targets.known[b, k] and targets.word_start[b, i] and targets.word_end[b, j]
    ]


def probability(scores: SpanScores, b: int, k: int, i: int, j: int) -> Tensor:
    return (scores.span[b, k, i, j - i] - scores.span_threshold[b, k]).sigmoid()


@pytest.mark.parametrize("confidence", [0.6, 0.9, 0.999])
def test_value_and_gradient_are_those_of_the_definition(confidence: float) -> None:
    teacher, student, targets = random_scores(1), random_scores(2), some_targets(known=KNOWN)
    labels = teacher_labels(SpanScores(*(part.detach() for part in teacher)), targets, confidence)
    found, wanted, learned = distillation(student, labels), torch.zeros((), dtype=torch.float64), 0
    for place in candidates(targets):
        q, p = probability(teacher, *place).detach(), probability(student, *place)
        if max(q, 1 - q) >= confidence:
            wanted = wanted + q * (q / p).log() + (1 - q) * ((1 - q) / (1 - p)).log()
            learned += 1
    assert 0 < learned < len(candidates(targets))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)
    of_found, of_wanted = (
        torch.autograd.grad(value, (student.span, student.span_threshold)) for value in (found, wanted)
    )
    for one, other in zip(of_found, of_wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_student_that_agrees_has_nothing_to_learn() -> None:
    scores = random_scores()
    labels = teacher_labels(SpanScores(*(part.detach() for part in scores)), some_targets(), 0.9)
    loss = distillation(scores, labels)
    assert loss.item() == pytest.approx(0, abs=1e-12)
    assert torch.autograd.grad(loss, scores.span)[0].abs().max() < 1e-12


def test_no_negative_is_what_the_teacher_does_not_surely_hold_for_none() -> None:
    teacher, targets = random_scores(1), some_targets(known=KNOWN)
    opened = left_open(targets, teacher_labels(teacher, targets, 0.9))
    open_ = {tuple(row) for row in opened.excluded_spans.tolist()}
    assert open_ == {p for p in candidates(targets) if probability(teacher, *p) > 0.1}
    assert 0 < len(open_) < len(candidates(targets))


def test_an_unknown_span_has_no_gradient() -> None:
    targets = some_targets(excluded_spans=torch.tensor([[1, 0, 2, 3]]))
    scores = random_scores()
    parts = span_contrast(scores, targets, ContrastSettings(boundary_smoothing=0.1))
    of_starts, of_ends, of_spans = torch.autograd.grad(
        torch.stack(list(parts.values())).sum(), (scores.start, scores.end, scores.span)
    )
    assert of_spans[1, 0, 2, 1] == of_starts[1, 0, 2] == of_ends[1, 0, 3] == 0
    assert of_spans[1, 1, 2, 1] != 0
    assert of_spans[1, 0, 2, 0] != 0


def test_a_probability_of_a_half_is_never_sure() -> None:
    scores = random_scores()
    even = scores._replace(span=scores.span_threshold[:, :, None, None].expand_as(scores.span))
    labels = teacher_labels(even, some_targets(), math.nextafter(0.5, 1))
    assert not labels.sure.any()
