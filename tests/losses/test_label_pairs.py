"""Pairs of words against what is known of each of them, pair by pair."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.losses.label_pairs import label_keys, label_pairs
from rayner.losses.positives import pairs

TAGS = ("O", "B-A", "I-A", "B-B", "I-B", "B-C", "I-C")
TYPES = torch.tensor([0, 0, 0, 1, 1, 2, 2])
SETS = st.sets(st.integers(0, 2), min_size=1)


@st.composite
def words(draw: st.DrawFn) -> list[tuple[int, set[int]]]:
    """Labels, and the types that their documents were annotated for; that of a label among them."""
    found = []
    for _ in range(draw(st.integers(1, 7))):
        known = draw(SETS)
        labels = [0, *(2 * t + k for t in sorted(known) for k in (1, 2))]
        found.append((draw(st.sampled_from(labels)), known))
    return found


def keys_of(drawn: list[tuple[int, set[int]]], tokens: list[int] | None = None) -> torch.Tensor:
    known = torch.tensor([[t in known for t in range(3)] for _, known in drawn])
    numbers = torch.tensor(tokens or range(len(drawn)))
    return label_keys(torch.tensor([label for label, _ in drawn]), known, numbers)


def is_not(one: int, known: set[int], other: int) -> bool:
    """Whether a word, of a document annotated for some types, is known not to have the other label."""
    return one != other and other > 0 and (other - 1) // 2 in known


@given(words())
def test_words_are_told_apart_only_where_their_labels_are_known(drawn: list[tuple[int, set[int]]]) -> None:
    found = label_pairs(keys_of(drawn), torch.arange(len(drawn)), TYPES)
    for a, (one, knows) in enumerate(drawn):
        for b, (other, known) in enumerate(drawn):
            agree = one == other and (one > 0 or knows == known)
            differ = is_not(one, knows, other) or is_not(other, known, one)
            assert bool(found.positive[a, b]) == (agree and a != b)
            assert bool(found.negative[a, b]) == differ


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.data())
def test_where_all_types_are_annotated_labels_alone_decide(labels: list[int], data: st.DataObject) -> None:
    own = torch.tensor(data.draw(st.lists(st.sampled_from(range(len(labels))), unique=True, min_size=1)))
    found = label_pairs(keys_of([(label, {0, 1, 2}) for label in labels]), own, TYPES)
    wanted = pairs(torch.tensor(labels)[own], torch.tensor(labels), own)
    assert torch.equal(found.positive, wanted.positive)
    assert torch.equal(found.negative, wanted.negative)


@given(words(), st.data())
def test_a_word_of_two_windows_is_no_other_word(
    drawn: list[tuple[int, set[int]]], data: st.DataObject
) -> None:
    shown = data.draw(st.lists(st.sampled_from(range(len(drawn))), min_size=1))
    found = label_pairs(keys_of([drawn[w] for w in shown], shown), torch.arange(len(shown)), TYPES)
    once = label_pairs(keys_of(drawn), torch.arange(len(drawn)), TYPES)
    for a, one in enumerate(shown):
        for b, other in enumerate(shown):
            assert bool(found.positive[a, b]) == bool(once.positive[one, other])
            assert bool(found.negative[a, b]) == bool(once.negative[one, other])
    twice = label_pairs(keys_of([(1, {0}), (0, {0})], [7, 7]), torch.arange(2), TYPES)
    assert not (twice.positive | twice.negative).any()


def test_more_types_than_bits() -> None:
    types = 130
    known = torch.eye(types, dtype=torch.bool)
    labels = torch.arange(1, types + 1)
    own, of_labels = torch.arange(types), torch.arange(-1, types).clamp_min(0)
    alone = label_pairs(label_keys(labels, known, own), own, of_labels)
    assert not alone.negative.any()
    everything = label_keys(labels, torch.ones_like(known), own)
    told = label_pairs(everything, own, of_labels)
    assert torch.equal(told.negative, ~known)


def test_words_outside_of_more_types_than_bits_agree_only_if_all_sets_do() -> None:
    known = torch.zeros(2, 130, dtype=torch.bool)
    known[:, 0], known[0, 100] = True, True  # of the first document, one type more, beyond the first 62
    keys = label_keys(torch.zeros(2, dtype=torch.long), known, torch.arange(2))
    assert not label_pairs(keys, torch.arange(2), torch.zeros(1, dtype=torch.long)).positive.any()
