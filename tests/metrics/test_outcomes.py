"""Where each gold mention ends: one case each, and counts that add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Candidate, Document, Mention
from rayner.metrics.counts import count_spans
from rayner.metrics.error_kinds import categorize
from rayner.metrics.outcomes import OUTCOMES, Outcome, Truth, outcomes

KNOWN = frozenset("ABC")


def truth_of(mention: Mention) -> Truth:
    """Entities A, B and C are known, of type T alone; `A|B` is either."""
    ids = frozenset((mention.entity_id or "").split("|")) - {""}
    return Truth(ids, bool(ids & KNOWN), mention.type == "T")


def mention(
    start: int, end: int, type: str = "T", entity: str | None = None, candidates: str = ""
) -> Mention:
    return Mention(start, end, type, entity, candidates=tuple(Candidate(name, 0.5) for name in candidates))


def judged(
    gold: list[Mention], predicted: list[Mention], types: list[str] | None = None, linking: bool = True
) -> list[Outcome]:
    documents = [Document("d", "", tuple(mentions)) for mentions in (gold, predicted)]
    (rows,) = outcomes([documents[0]], [documents[1]], types, truth_of if linking else None)
    return rows


@pytest.mark.parametrize(
    ("gold", "predicted", "outcome"),
    [
        (mention(0, 5, entity="A"), mention(0, 5, entity="A", candidates="AB"), "right"),
        (mention(0, 5, entity="B|A"), mention(0, 5, entity="A", candidates="AB"), "right"),
        (mention(0, 5), mention(0, 5, candidates="AB"), "right"),
        (mention(0, 5, "U"), mention(0, 5, "U"), "right"),
        (mention(0, 5, entity="A"), mention(7, 9, entity="A"), "missed"),
        (mention(0, 5, entity="A"), mention(0, 4, entity="A", candidates="A"), "boundary"),
        (mention(0, 5, entity="A"), mention(0, 4, "U"), "boundary"),
        (mention(0, 5, entity="A"), mention(0, 5, "U"), "type"),
        (mention(0, 5, "U", "A"), mention(0, 5, "U"), "unlinked"),
        (mention(0, 5, entity="X"), mention(0, 5, entity="A", candidates="A"), "unknown"),
        (mention(0, 5, entity="X"), mention(0, 5), "unknown"),
        (mention(0, 5, entity="A"), mention(0, 5, entity="B", candidates="BC"), "retrieval"),
        (mention(0, 5, entity="A"), mention(0, 5), "retrieval"),
        (mention(0, 5, entity="A"), mention(0, 5, entity="B", candidates="BA"), "ranking"),
        (mention(0, 5, entity="A"), mention(0, 5, candidates="BA"), "ranking"),
        (mention(0, 5, entity="A"), mention(0, 5, candidates="AB"), "refused"),
        (mention(0, 5), mention(0, 5, entity="A", candidates="A"), "nil_linked"),
    ],
)
def test_one_mention_each(gold: Mention, predicted: Mention, outcome: str) -> None:
    found = [row for row in judged([gold], [predicted]) if row.gold is not None]
    assert [row.outcome for row in found] == [outcome]
    assert found[0].truth == truth_of(gold)
    if found[0].found:
        assert found[0].answer == predicted.entity_id


def test_a_prediction_where_no_mention_is_is_spurious() -> None:
    rows = judged([mention(0, 5)], [mention(0, 5), mention(7, 9, entity="A", candidates="A")])
    assert [(row.outcome, row.gold, row.answer) for row in rows[1:]] == [("spurious", None, "A")]


def test_a_mention_that_is_given_twice_counts_once_and_either_entity_is_right() -> None:
    gold = [mention(0, 5, entity="A"), mention(0, 5, entity="B")]
    rows = judged(gold, [mention(0, 5, entity="B", candidates="CB")])
    assert [(row.outcome, row.rank) for row in rows] == [("right", 2)]


def test_only_types_that_are_asked_for_and_annotated_count() -> None:
    gold = [mention(0, 5), mention(7, 9, "U")]
    assert [row.outcome for row in judged(gold, [mention(0, 5)], ["T"])] == ["right"]
    document = Document("d", "", tuple(gold), annotated_types=("T",))
    answer = replace(document, mentions=(mention(0, 5), mention(7, 9, "V")), annotated_types=None)
    (rows,) = outcomes([document], [answer])
    assert [row.outcome for row in rows] == ["right"]


mentions = st.lists(
    st.builds(
        mention,
        st.integers(0, 3),
        st.integers(4, 7),
        st.sampled_from("TU"),
        st.sampled_from([None, "A", "B", "X", "A|X"]),
        st.sampled_from(["", "A", "BA", "CB"]),
    ),
    max_size=6,
)


@given(st.lists(st.tuples(mentions, mentions), min_size=1, max_size=3), st.booleans())
def test_every_mention_has_one_outcome(pairs: list[tuple[list, list]], linking: bool) -> None:
    gold = [Document(str(i), "", tuple(g)) for i, (g, _) in enumerate(pairs)]
    predicted = [Document(str(i), "", tuple(p)) for i, (_, p) in enumerate(pairs)]
    everything = [row for of in outcomes(gold, predicted, None, truth_of if linking else None) for row in of]
    counts = count_spans(gold, predicted)
    assert sum(row.gold is not None for row in everything) == counts.gold.sum()
    assert sum(row.predicted is not None for row in everything) == counts.predicted.sum()
    assert sum(row.found for row in everything) == counts.correct["exact"].sum()
    assert {row.outcome for row in everything} <= {*OUTCOMES, "spurious"}
    kinds = Counter(error.category for error in categorize(gold, predicted))
    found = Counter(row.outcome for row in everything)
    assert found["missed"] == kinds["missed"]
    assert found["type"] == kinds["type"]
    assert found["boundary"] == kinds["boundary"] + kinds["boundary_and_type"]
    assert found["spurious"] == kinds["spurious"]
    if not linking:
        assert found["right"] == counts.correct["exact"].sum()
