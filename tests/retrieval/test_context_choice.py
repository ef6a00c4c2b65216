"""Contexts that differ from one another and speak of each name."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rayner.retrieval.context_choice import diverse


def words(*texts: str) -> list[frozenset[str]]:
    return [frozenset(text.split()) for text in texts]


def test_of_candidates_that_say_the_same_one_is_taken() -> None:
    candidates = words("Ada is a poet", "Ada is a poet too", "it rained")
    assert diverse([0.9, 0.85, 0.5], candidates, set(), 2) == [0, 2]
    assert diverse([0.9, 0.85, 0.5], candidates, set(), 2, diversity=0) == [0, 1]


def test_each_name_of_the_sentence_gets_a_context_before_a_second_one_is_taken() -> None:
    candidates = words("Ada is a poet", "Ada wrote much", "Kurt is a smith", "Emmy is Ada")
    names = {"Ada", "Kurt", "Nobody"}
    assert diverse([0.9, 0.8, 0.1, 0.7], candidates, names, 2) == [0, 2]
    assert diverse([0.9, 0.8, 0.1, 0.7], candidates, names, 4)[:2] == [0, 2]


def test_one_candidate_with_both_names_is_taken_first() -> None:
    candidates = words("Ada slept", "Kurt slept", "Ada met Kurt")
    assert diverse([0.6, 0.6, 0.5], candidates, {"Ada", "Kurt"}, 1) == [2]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.frozensets(st.sampled_from("abcdef"))), max_size=8),
    st.frozensets(st.sampled_from("abxy")),
    st.integers(1, 10),
    st.floats(0, 1),
)
def test_so_many_are_chosen_each_once_and_names_are_covered(
    candidates: list[Any], names: frozenset[str], count: int, diversity: float
) -> None:
    relevance, sets = [r for r, _ in candidates], [s for _, s in candidates]
    chosen = diverse(relevance, sets, names, count, diversity)
    assert len(chosen) == len(set(chosen)) == min(count, len(candidates))
    could = names & frozenset().union(*sets)
    if count >= len(could):
        assert could <= frozenset().union(*(sets[place] for place in chosen))
    if not names and diversity == 0:
        assert [relevance[place] for place in chosen] == sorted(relevance, reverse=True)[:count]
