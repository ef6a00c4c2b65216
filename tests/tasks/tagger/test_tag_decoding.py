from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.tasks.tagger.decoding import TagGrammar, log_marginals

LABELS = {
    "BIO": ["O", "B-A", "I-A", "B-B", "I-B"],
    "BIOES": ["O", *(f"{prefix}-{name}" for name in "AB" for prefix in "BIES")],
}


def unbroken(tags: tuple[str, ...], scheme: str) -> bool:
    """Whether cutting the mentions out one after another uses up every tag."""
    place = 0
    while place < len(tags):
        tag, name = tags[place][0], tags[place][2:]
        end = place + 1
        if tag == "B":
            while end < len(tags) and tags[end] == f"I-{name}":
                end += 1
            if scheme == "BIOES":
                if end == len(tags) or tags[end] != f"E-{name}":
                    return False
                end += 1
        elif tag not in "OS":
            return False
        place = end
    return True


@pytest.mark.parametrize("scheme", sorted(LABELS))
def test_it_allows_what_consists_of_whole_mentions(scheme: str) -> None:
    labels = LABELS[scheme]
    grammar = TagGrammar(labels)
    allowed = 0
    for length in range(5):
        for path in product(range(len(labels)), repeat=length):
            wanted = unbroken(tuple(labels[i] for i in path), scheme)
            assert grammar.allows(np.array(path, dtype=int)) == wanted
            allowed += wanted
    assert 0 < allowed < sum(len(labels) ** length for length in range(5))


@given(st.sampled_from(sorted(LABELS)), st.integers(1, 4), st.integers(0, 10**6))
def test_the_best_sequence_is_that_of_trying_all(scheme: str, length: int, seed: int) -> None:
    labels = LABELS[scheme]
    scores = np.random.default_rng(seed).normal(size=(length, len(labels)))
    paths = np.array(list(product(range(len(labels)), repeat=length)))
    sums = scores[np.arange(length), paths].sum(1)
    wanted = [unbroken(tuple(labels[i] for i in path), scheme) for path in paths]
    best = paths[np.where(wanted, sums, -np.inf).argmax()]
    assert TagGrammar(labels).best(scores).tolist() == best.tolist()


@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 10**6),
    st.sampled_from([1.0, 20.0, 150.0, 300.0, 500.0, 1e4]),
)
def test_marginals_are_shares_of_all_sequences(length: int, labels: int, seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    scores, between = (generator.normal(size=(size, labels)) * scale for size in (length, labels))
    paths = np.array(
        list(product(range(labels), repeat=length)),
    )
    sums = scores[np.arange(length), paths].sum(1) + between[paths[:, :-1], paths[:, 1:]].sum(1)
    shares = np.exp(sums - sums.max())
    shares /= shares.sum()
    wanted = np.zeros((length, labels))
    for place in range(length):
        np.add.at(wanted[place], paths[:, place], shares)
    found = log_marginals(scores, between)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found), wanted, atol=1e-9)
    assert log_marginals(scores[:0], between).shape == (0, labels)


def test_one_certain_word_decides_about_its_neighbours() -> None:
    grammar = TagGrammar(LABELS["BIO"])
    scores = np.log(np.array([[0.5, 0.4, 0.02, 0.05, 0.03], [0.05, 0.02, 0.9, 0.02, 0.01]]))
    assert [LABELS["BIO"][i] for i in scores.argmax(1)] == ["O", "I-A"]
    assert [LABELS["BIO"][i] for i in grammar.best(scores)] == ["B-A", "I-A"]
