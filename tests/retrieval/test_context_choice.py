"""The choice of contexts: within its room, by score, different from one another, every mention covered."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.retrieval.context_choice import Room, around, best, diverse, jaccard

candidates = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 9), st.frozensets(st.sampled_from("abcdef"))), max_size=8
)
mention_sets = st.lists(st.frozensets(st.sampled_from("abcdefg"), max_size=2), max_size=4)
rooms = st.builds(Room, st.sampled_from([0, 1, 3, inf]), st.sampled_from([0, 5, 12, inf]), st.floats(-1, 1))


@given(candidates, rooms)
def test_the_best_fill_the_room(rows: list[tuple[float, int, frozenset[str]]], room: Room) -> None:
    scores, lengths = [r[0] for r in rows], [r[1] for r in rows]
    chosen = best(scores, lengths, room)
    expected, space = [], room.tokens
    for i in sorted(range(len(rows)), key=lambda i: (-scores[i], i)):
        if scores[i] > room.minimum and lengths[i] <= space and len(expected) < room.count:
            expected.append(i)
            space -= lengths[i]
    assert chosen == expected


@given(candidates, rooms, mention_sets, st.floats(0, 1))
def test_any_choice_keeps_to_the_room(
    rows: list[tuple[float, int, frozenset[str]]],
    room: Room,
    mentions: list[frozenset[str]],
    relevance: float,
) -> None:
    scores, lengths, tokens = [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]
    chosen = diverse(scores, lengths, tokens, room, mentions, relevance)
    assert len(set(chosen)) == len(chosen) <= room.count
    assert sum(lengths[i] for i in chosen) <= room.tokens
    assert all(scores[i] > room.minimum for i in chosen)
    spent = sum(lengths[i] for i in chosen)
    if len(chosen) < room.count:
        left = [i for i in range(len(rows)) if i not in chosen and scores[i] > room.minimum]
        assert all(lengths[i] + spent > room.tokens for i in left), "what still fits is taken"


@given(candidates, mention_sets)
def test_every_mention_that_some_candidate_has_is_covered(
    rows: list[tuple[float, int, frozenset[str]]], mentions: list[frozenset[str]]
) -> None:
    scores, lengths, tokens = [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]
    there = [mention for mention in mentions if mention and any(mention <= of_one for of_one in tokens)]
    chosen = diverse(scores, lengths, tokens, Room(count=len(there)), mentions)
    for mention in there:
        assert any(mention <= tokens[i] for i in chosen)


def test_what_says_the_same_again_comes_later() -> None:
    scores = [0.9, 0.89, 0.6]
    tokens = [
        frozenset({"Ahab", "captain"}),
        frozenset({"Ahab", "captain"}),
        frozenset({"Nantucket", "island"}),
    ]
    lengths = [2, 2, 2]
    assert best(scores, lengths, Room(2)) == [0, 1]
    assert diverse(scores, lengths, tokens, Room(2)) == [0, 2]
    assert diverse(scores, lengths, tokens, Room(2), relevance=1) == [0, 1]
    # 0.7 * 0.89 - 0.3 * 1 = 0.323 lies below 0.7 * 0.6 = 0.42, and above 0.7 * 0.4 = 0.28.
    assert diverse([0.9, 0.89, 0.4], lengths, tokens, Room(2)) == [0, 1]


def test_two_mentions_have_a_context_each() -> None:
    scores = [0.9, 0.8, 0.1]
    tokens = [frozenset({"Ahab", "captain"}), frozenset({"Ahab", "old"}), frozenset({"New", "Bedford", "in"})]
    mentions = [frozenset({"Ahab"}), frozenset({"New", "Bedford"})]
    assert diverse(scores, [5, 5, 5], tokens, Room(2), mentions) == [0, 2]
    assert diverse(scores, [5, 5, 5], tokens, Room(2, minimum=0.5), mentions) == [0, 1]


def test_a_long_context_gives_way_to_shorter_ones() -> None:
    assert best([0.9, 0.8, 0.7, 0.6], [50, 200, 30, 30], Room(tokens=100)) == [0, 2]
    assert best([0.9, 0.8], [50, 40], Room(tokens=0)) == []
    assert best([], [], Room()) == []


def test_contexts_are_read_in_the_order_of_the_document() -> None:
    assert around(5, [9, 1, 7, 5, 3, 1]) == ([1, 3], [7, 9])
    assert around(0, []) == ([], [])


@pytest.mark.parametrize(
    ("one", "other", "share"), [("ab", "bc", 1 / 3), ("a", "a", 1), ("", "", 0), ("a", "", 0)]
)
def test_the_jaccard_index(one: str, other: str, share: float) -> None:
    assert jaccard(set(one), set(other)) == pytest.approx(share)
