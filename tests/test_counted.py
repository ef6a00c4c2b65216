"""Counts with their nouns."""

from __future__ import annotations

import pytest

from rayner.counted import counted


@pytest.mark.parametrize(
    ("number", "nouns", "said"),
    [
        (0, ("trial",), "0 trials"),
        (1, ("trial",), "1 trial"),
        (2000, ("trial",), "2,000 trials"),
        (1, ("entity", "entities"), "1 entity"),
        (3, ("entity", "entities"), "3 entities"),
    ],
)
def test_one_of_something_has_a_noun_for_one(number: int, nouns: tuple[str, ...], said: str) -> None:
    assert counted(number, *nouns) == said
