"""The conditional random field against all sequences of labels, one by one."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rayner.losses.crf import crf, log_partition
from rayner.losses.tagging import tagging
from rayner.tasks.tagger.decoding import TagGrammar, log_marginals

LABELS = 3


def drawn(
    seed: int, lengths: list[int], dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits, labels, unknown and between."""
    generator = torch.Generator().manual_seed(seed)
    words = sum(lengths)
    logits = 2 * torch.randn(words, LABELS, generator=generator, dtype=torch.float64)
    labels = torch.randint(LABELS, (words,), generator=generator)
    unknown = torch.rand(words, LABELS, generator=generator) < 0.4
    unknown[:, 0] = False
    between = torch.randn(LABELS, LABELS, generator=generator, dtype=torch.float64)
    return logits.to(dtype).requires_grad_(), labels, unknown, between.to(dtype).requires_grad_()


def slow(logits: Tensor, lengths: list[int], labels: Tensor, unknown: Tensor, between: Tensor) -> Tensor:
    total = logits.new_zeros(())
    begin = 0
    for length in lengths:
        allowed, every = [], []
        for path in product(range(LABELS), repeat=length):
            parts = [logits[begin + place, label] for place, label in enumerate(path)]
            score = torch.stack([*parts, *(between[pair] for pair in pairwise(path)), 0 * total]).sum()
            every.append(score)
            words = zip(path, labels[begin:].tolist(), unknown[begin:].tolist(), strict=False)
            if all(label == own or (own == 0 and others[label]) for label, own, others in words):
                allowed.append(score)
        if length:
            total = total + torch.stack(every).logsumexp(0) - torch.stack(allowed).logsumexp(0)
        begin += length
    return total


@given(st.integers(0, 2**16), st.lists(st.integers(0, 4), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_it_is_the_sum_over_all_sequences_in_value_and_gradient(seed: int, lengths: list[int]) -> None:
    logits, labels, unknown, between = drawn(seed, lengths)
    found = crf(logits, lengths, labels, unknown, between)
    wanted = slow(logits, lengths, labels, unknown, between)
    assert found.item() == pytest.approx(wanted.item(), abs=1e-9)
    if sum(lengths):
        grads = [torch.autograd.grad(loss, (logits, between), allow_unused=True) for loss in (found, wanted)]
        for one, other in zip(*grads, strict=True):
            wanted_one = torch.zeros_like(one) if other is None else other
            torch.testing.assert_close(one, wanted_one, rtol=0, atol=1e-9)


def test_without_scores_between_labels_it_is_the_cross_entropy() -> None:
    logits, labels, unknown, between = drawn(0, [4, 3])
    found = crf(logits, [4, 3], labels, unknown, torch.zeros_like(between))
    assert found.item() == pytest.approx(tagging(logits, labels, unknown, torch.ones(7)).item())


def test_half_precision_and_long_windows_are_computed_in_float32() -> None:
    logits, labels, unknown, between = drawn(1, [500], torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = crf(logits, [500], labels, unknown, between)
    assert found.dtype == torch.float32
    exact = crf(logits.double(), [500], labels, unknown, between.double())
    assert found.item() == pytest.approx(exact.item(), rel=1e-5)
    found.backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@given(st.integers(0, 2**16), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_marginals_are_gradients_of_the_partition_and_the_best_sequence_is_the_best(
    seed: int, length: int
) -> None:
    logits, _, _, between = drawn(seed, [length])
    (wanted,) = torch.autograd.grad(
        log_partition(logits[None], torch.tensor([length]), between).sum(), logits
    )
    scores, added = logits.detach().numpy(), between.detach().numpy()
    np.testing.assert_allclose(np.exp(log_marginals(scores, added)), wanted.numpy(), atol=1e-9)
    grammar = TagGrammar(["O", "B-X", "I-X"])
    paths = [
        np.array(path) for path in product(range(LABELS), repeat=length) if grammar.allows(np.array(path))
    ]
    totals = [scores[np.arange(length), path].sum() + added[path[:-1], path[1:]].sum() for path in paths]
    np.testing.assert_array_equal(grammar.best(scores, added), paths[int(np.argmax(totals))])


def test_shares_of_windows_add_up() -> None:
    """What makes two workers equal one, in value and gradient; one of them may have no window."""
    lengths = [3, 0, 4, 2]
    logits, labels, unknown, between = drawn(2, lengths)
    whole = crf(logits, lengths, labels, unknown, between)
    for cut, words in ((2, 3), (0, 0)):
        first, rest = (
            crf(logits[own], part, labels[own], unknown[own], between)
            for own, part in ((slice(words), lengths[:cut]), (slice(words, None), lengths[cut:]))
        )
        assert (first + rest).item() == pytest.approx(whole.item(), abs=1e-12)
        for one, other in zip(
            torch.autograd.grad(first + rest, (logits, between)),
            torch.autograd.grad(whole, (logits, between), retain_graph=True),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
