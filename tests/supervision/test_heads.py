"""Heads of mentions by rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.supervision.heads import head_limits, head_of


@pytest.mark.parametrize(
    ("phrase", "head"),
    [
        ("the patient in front of her", "patient"),
        ("Mary", "Mary"),
        ("her", "her"),
        ("Mary 's younger brother", "brother"),
        ("the King 's", "King"),
        ("Ada ' s", "Ada"),
        ("Mr . Rochester ’ s", "Rochester"),
        ("Ada ' s mother", "mother"),
        ("Lloyd ' s of London", "Lloyd"),
        ("the dogs '", "dogs"),
        ("MS - S", "S"),
        ("Sir Walter Elliot , of Kellynch Hall", "Elliot"),
        ("the man who was Thursday", "man"),
        ("King Solomon ( the wise )", "Solomon"),
        ("Jean - Luc", "Luc"),
        ("The house on the hill", "house"),
        ("in the morning", "morning"),
        (", the ship", "ship"),
        ("日本", "日本"),
        ("the ‘ Nautilus ’", "Nautilus"),
        ("the _ Nautilus _", "Nautilus"),
        ("the « Nautilus »", "Nautilus"),
        ("a £ 5 note", "note"),
        ("the 10 % increase", "increase"),
        ("the — very old — man", "old"),
        ("the ( small ) amount of it", "small"),
        ("that , which he saw", "that"),
        ("!", "!"),
    ],
)
def test_the_head_of_a_noun_phrase(phrase: str, head: str) -> None:
    words = phrase.split()
    assert words[head_of(words)] == head


WORDS = ["the", "his", "cat", "of", ",", "(", "'s", "-", "who", "…"]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9))
def test_the_limits_are_those_of_the_heads(words: list[str]) -> None:
    for first, limit in enumerate(head_limits(words)):
        could = [i for i in range(first, limit + 1) if words[i] not in (",", "(", "'s", "-", "…")]
        assert not could or first + head_of(words[first:]) == could[-1]


@given(st.lists(st.sampled_from(["the", "cat", "of", ",", "'s", "-", "who", "…"]), min_size=1, max_size=8))
def test_a_head_is_one_of_the_words_and_holds_letters_where_any_before_it_does(words: list[str]) -> None:
    place = head_of(words)
    assert 0 <= place < len(words)
