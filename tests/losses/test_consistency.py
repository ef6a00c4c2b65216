from __future__ import annotations

import torch

from rayner.losses.consistency import divergence
from rayner.losses.span_contrast import SpanTargets
from tests.losses.drawn_spans import LENGTH, TYPES, WIDTHS, WINDOWS, random_scores, some_targets


def by_definition(one, other, targets: SpanTargets) -> torch.Tensor:
    found = torch.zeros((), dtype=torch.float64)
    for b in range(WINDOWS):
        for k in range(TYPES):
            for i in range(LENGTH):
                for j in range(i, min(LENGTH, i + WIDTHS)):
                    if not (targets.known[b, k] and targets.word_start[b, i] and targets.word_end[b, j]):
                        continue
                    p, q = (
                        torch.distributions.Bernoulli(logits=s.span[b, k, i, j - i] - s.span_threshold[b, k])
                        for s in (one, other)
                    )
                    both = (torch.distributions.kl_divergence(*pair) for pair in ((p, q), (q, p)))
                    found = found + sum(both) / 2
    return found


def test_value_and_gradient_are_those_of_the_definition() -> None:
    one, other = random_scores(1), random_scores(2)
    targets = some_targets(known=torch.tensor([[True, False], [True, True], [False, True]]))
    found, expected = divergence(one, other, targets), by_definition(one, other, targets)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    inputs = (one.span, other.span, one.span_threshold, other.span_threshold)
    of_found, of_expected = (torch.autograd.grad(value, inputs) for value in (found, expected))
    for grad, wanted in zip(of_found, of_expected, strict=True):
        torch.testing.assert_close(grad, wanted)


def test_two_equal_passes_differ_by_nothing_and_windows_add_up() -> None:
    one, other, targets = random_scores(1), random_scores(2), some_targets()
    assert divergence(one, one, targets) == 0
    whole = divergence(one, other, targets)
    alone = torch.eye(WINDOWS, dtype=torch.bool)
    parts = [
        divergence(one, other, targets._replace(known=targets.known & alone[:, b, None]))
        for b in range(WINDOWS)
    ]
    torch.testing.assert_close(torch.stack(parts).sum(), whole)


def test_far_decisions_stay_finite_in_float32() -> None:
    one, other = (
        type(s)(*(t.detach().float() * 1e3 for t in s)) for s in (random_scores(1), random_scores(2))
    )
    assert divergence(one, other, some_targets()).isfinite()
