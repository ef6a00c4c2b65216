from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rayner.data.schema import MENTION_TYPE, Document, Mention, document_from_row, document_to_row
from rayner.tasks.document_windows import Found
from rayner.tasks.recognizer.overlaps import without_overlaps
from rayner.tasks.recognizer.predictor import Recognizer
from tests.tasks.small import built, recognizer

NARROW, WIDE = 38.0, 60.0
"""Margins whose logistic is exactly 1.0 in double precision: only the margins tell them apart."""


@pytest.mark.parametrize("margins", [(NARROW, WIDE), (WIDE, NARROW), (-70.0, -65.0)])
def test_of_overlapping_mentions_the_one_with_the_larger_margin_is_kept(margins: tuple[float, float]) -> None:
    first, second = (
        Mention(start, start + 9, "PER", score=1.0, margin=margin)
        for start, margin in zip((0, 4), margins, strict=True)
    )
    best = max(first, second, key=lambda m: m.margin or 0.0)
    assert without_overlaps([first, second]) == without_overlaps([second, first]) == [best]


@pytest.mark.parametrize("margins", [(NARROW, WIDE), (WIDE, NARROW)])
def test_the_margin_decides_and_is_stored_where_scores_are_equal(margins: tuple[float, float]) -> None:
    task = recognizer(decoding={"overlap": "flat"})
    predictor: Recognizer = task.predictor(built(task))
    document = Document("d", "Ada Lovelace Byron")
    windows = predictor.prepare(document)
    (window,) = windows
    edges = [window.position(int(place)) for place in (*window.subwords.first, len(window.subwords))]
    # "Ada Lovelace" and "Lovelace Byron".
    found = [
        Found(0, edges[a], edges[b] - 1, margin)
        for (a, b), margin in zip(((0, 2), (1, 3)), margins, strict=True)
    ]
    answer = predictor.finish(document, windows, [found])
    (mention,) = answer.mentions
    text = document.text[mention.start : mention.end]
    assert text == ("Ada Lovelace" if margins[0] == WIDE else "Lovelace Byron")
    assert (mention.score, mention.margin) == (1.0, WIDE)
    stored = pa.array([document_to_row(answer)["mentions"]], pa.list_(MENTION_TYPE)).to_pylist()
    assert stored[0][0]["margin"] == WIDE
    again = document_from_row({**document_to_row(answer), "mentions": stored[0]})
    assert again.mentions[0].margin == WIDE


def brute_force(mentions: list[Mention]) -> float:
    best = 0.0
    for size in range(1, len(mentions) + 1):
        for chosen in combinations(mentions, size):
            if all(a.end <= b.start or b.end <= a.start for a, b in combinations(chosen, 2)):
                best = max(best, sum(m.margin or 0 for m in chosen))
    return best


def drawn(seed: int, least: float = 0.0) -> list[Mention]:
    rng = np.random.default_rng(seed)
    starts, widths = rng.integers(0, 12, 8), rng.integers(1, 6, 8)
    margins = least + rng.integers(1, 9, 8) / 4
    return [
        Mention(int(s), int(s + w), f"T{i}", margin=float(m))
        for i, (s, w, m) in enumerate(zip(starts, widths, margins, strict=True))
    ]


def test_optimal_has_the_largest_sum_of_margins() -> None:
    greedy_is_less = 0
    for seed in range(60):
        mentions = drawn(seed)
        kept = without_overlaps(mentions, "optimal")
        assert all(a.end <= b.start for a, b in pairwise(kept))
        assert set(kept) <= set(mentions)
        total = sum(m.margin or 0 for m in kept)
        assert total == pytest.approx(brute_force(mentions))
        assert without_overlaps(mentions[::-1], "optimal") == kept
        greedy = sum(m.margin or 0 for m in without_overlaps(mentions))
        assert greedy <= total + 1e-9
        greedy_is_less += greedy < total - 1e-9
    assert greedy_is_less > 3


@pytest.mark.parametrize("choice", ["greedy", "optimal"])
def test_lower_thresholds_take_no_mention_away(choice: Any) -> None:
    added = 0
    for seed in range(60):
        mentions = drawn(seed, -1.0)
        usual = without_overlaps([m for m in mentions if (m.margin or 0) > 0], choice)
        lower = without_overlaps(mentions, choice)
        assert [m for m in lower if (m.margin or 0) > 0] == usual
        assert all(a.end <= b.start for a, b in pairwise(lower))
        added += len(lower) > len(usual)
    assert added > 3


def test_the_recipe_says_which_of_overlapping_mentions_are_kept() -> None:
    """One wide mention, against two that lie in it and have more together."""
    found = [Found(0, 1, 4, 3.0), Found(1, 1, 2, 2.0), Found(1, 3, 4, 2.0)]
    for flat, expected in (("greedy", ["PER"]), ("optimal", ["ORG", "ORG"])):
        task = recognizer(decoding={"flat": flat})
        predictor: Recognizer = task.predictor(built(task))
        document = Document("d", "a b c d")
        windows = predictor.prepare(document)
        assert [m.type for m in predictor.finish(document, windows, [found]).mentions] == expected
