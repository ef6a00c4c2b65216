"""Scores of a whole pipeline: by hand, against the definition, and with intervals."""

from __future__ import annotations

from typing import Any

import pytest

from rayner.data.schema import Document, Mention
from rayner.metrics.end_to_end import FineTypes, score_end_to_end
from rayner.metrics.outcomes import Outcome, Truth, outcomes
from rayner.tasks.end_to_end import evaluate_end_to_end

A, B, NIL, LACKS, OTHER = (
    Truth(frozenset("A"), True, True),
    Truth(frozenset("B"), True, True),
    Truth(frozenset(), False, True),
    Truth(frozenset("X"), False, True),
    Truth(frozenset(), False, False),
)


def row(outcome: str, truth: Truth | None, place: int, rank: int | None = None) -> Outcome:
    """Of a mention that was found, or was not."""
    gold = None if truth is None else (place, place + 2, "T")
    found = outcome not in ("missed", "boundary", "type")
    predicted = (place, place + 2, "T") if found else (place, place + 1, "T")
    answer = "A" if outcome in ("nil_linked", "spurious", "unknown") else None
    return Outcome("d", outcome, gold, None if outcome == "missed" else predicted, truth, answer, rank)


ROWS = [
    [row("right", A, 0, 1), row("missed", B, 10), row("boundary", A, 20), row("spurious", None, 30)],
    [row("ranking", B, 0, 2), row("refused", A, 10, 1), row("nil_linked", NIL, 20), row("right", NIL, 30)],
    [
        row("unknown", LACKS, 0),
        row("retrieval", B, 10),
        row("right", OTHER, 20),
        row("missed", LACKS, 30),
    ],
]
ON_GOLD = [
    [row("right", A, 0, 1), row("retrieval", B, 10), row("right", A, 20, 1)],
    ROWS[1],
    [ROWS[2][0], row("retrieval", B, 10), row("right", OTHER, 20), row("unknown", LACKS, 30)],
]


def test_by_hand() -> None:
    found = score_end_to_end(ROWS, ON_GOLD)
    levels = found["levels"]
    # 11 gold mentions; 10 predictions, of which 8 have the right span and type.
    assert (levels["span_type"]["support"], levels["span_type"]["predicted"]) == (11, 10)
    assert levels["span_type"]["precision"] == pytest.approx(8 / 10)
    assert levels["span"]["recall"] == pytest.approx(8 / 11)
    assert levels["entity"]["precision"] == pytest.approx(3 / 10)
    assert levels["entity"]["recall"] == pytest.approx(3 / 11)
    assert levels["known_entity"]["precision"] == pytest.approx(3 / 9)
    assert levels["known_entity"]["recall"] == pytest.approx(3 / 9)
    assert found["outcomes"] == {
        "right": 3,
        "missed": 2,
        "boundary": 1,
        "type": 0,
        "unlinked": 0,
        "unknown": 1,
        "retrieval": 1,
        "ranking": 1,
        "refused": 1,
        "nil_linked": 1,
    }
    assert found["shares"]["right"] == pytest.approx(3 / 11)
    assert found["per_type"] == {"T": found["outcomes"]}
    assert found["spurious"] == {"mentions": 1, "linked": 1}
    assert found["unknown"] == {"mentions": 2, "ids": ["X"]}
    assert found["accuracy"] == {
        # Of types that are linked: right A and NIL; ranking, refused, nil_linked, unknown, retrieval.
        "predicted_mentions": {
            "entity": pytest.approx(2 / 7),
            "known": pytest.approx(1 / 4),
            "candidates": pytest.approx(3 / 4),
            "nil": pytest.approx(1 / 2),
            "mentions": 7,
        },
        "gold_mentions": {
            "entity": pytest.approx(3 / 10),
            "known": pytest.approx(2 / 6),
            "candidates": pytest.approx(4 / 6),
            "nil": pytest.approx(1 / 2),
            "mentions": 10,
        },
    }

    def f1(right: int) -> Any:
        return pytest.approx(2 * right / (10 + 11))

    assert found["bounds"] == {
        "as_is": f1(3),
        "choice": f1(6),
        "entities": f1(8),
        "mentions": pytest.approx(4 / 11),
    }


def test_intervals_are_over_documents_and_hold_the_scores() -> None:
    found = score_end_to_end(ROWS * 4, ON_GOLD * 4, resamples=300)
    intervals = found["intervals"]
    for level, scores in found["levels"].items():
        low, high = intervals["levels"][level]["f1"]
        assert low <= scores["f1"] <= high
        assert low < high
    for group in ("shares", "bounds"):
        assert intervals[group].keys() == found[group].keys()
        assert all(low <= found[group][name] <= high for name, (low, high) in intervals[group].items())
    assert intervals["accuracy"]["gold_mentions"]["nil"] is not None
    assert intervals["accuracy"]["gold_mentions"].keys() < found["accuracy"]["gold_mentions"].keys()
    assert intervals["resamples"] == 300
    alone = score_end_to_end(ROWS[:1])["intervals"]
    assert alone["levels"]["entity"]["f1"] is None
    assert alone["shares"]["right"] is None
    assert "intervals" not in score_end_to_end(ROWS, intervals=False)


def test_without_entities_only_spans_and_types_are_scored() -> None:
    gold = [Document("d", "", (Mention(0, 2, "T"), Mention(4, 6, "U")))]
    found = score_end_to_end(outcomes(gold, [Document("d", "", (Mention(0, 2, "T"),))]))
    assert list(found["levels"]) == ["span", "span_type"]
    assert found["outcomes"] == {"right": 1, "missed": 1, "boundary": 0, "type": 0}
    assert (found["accuracy"], found["bounds"]) == ({}, {})


@pytest.mark.parametrize("rows", [[], [[]]])
def test_nothing_is_scored_as_nothing(rows: list[list[Outcome]]) -> None:
    found = score_end_to_end(rows)
    assert found["spurious"]["mentions"] == 0
    assert set(found["shares"].values()) <= {None}


def test_fine_types_are_scored_as_found_and_on_the_gold_mentions() -> None:
    def typed(*types: str, start: int = 0) -> Mention:
        return Mention(start, start + 2, "T", types=tuple((name, 1.0) for name in types))

    gold = [Document("d", "", (typed("a", "b"), typed("a", start=5)))]
    predicted = [Document("d", "", (typed("a", "c"),))]
    on_gold = [Document("d", "", (typed("a", "b"), typed("b", start=5)))]
    levels = score_end_to_end(outcomes(gold, predicted), (), FineTypes(gold, predicted, on_gold))["levels"]
    found = {name: (scores["precision"], scores["recall"]) for name, scores in levels.items()}
    assert found["fine_types"] == (1 / 2, 1 / 3)
    assert found["fine_types_of_gold"] == (2 / 3, 2 / 3)


def test_fine_types_are_those_of_types_that_are_looked_for() -> None:
    class Finds:
        names = ("PER",)

    class Types:
        fine_types = ("a", "b")

    def typed(kind: str, start: int, *types: str) -> Mention:
        return Mention(start, start + 2, kind, types=tuple((name, 1.0) for name in types))

    gold = [Document("d", "", (typed("PER", 0, "a"), typed("LOC", 5, "b")))]
    found = [Document("d", "", (typed("PER", 0, "a"),))]
    levels = evaluate_end_to_end((Finds(), Types()), gold, found, gold, intervals=False).scores["levels"]
    assert (levels["fine_types"]["recall"], levels["fine_types"]["support"]) == (1.0, 1)


def test_what_no_stage_links_is_not_what_the_knowledge_base_lacks() -> None:
    apart = Truth(frozenset("Y"), False, False)
    found = score_end_to_end([[*ROWS[0], row("unlinked", apart, 40)]], intervals=False)
    assert found["unknown"] == {"mentions": 0, "ids": []}
    assert found["levels"]["known_entity"]["support"] == found["levels"]["entity"]["support"]
