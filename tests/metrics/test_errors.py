from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.metrics.counts import count_spans
from rayner.metrics.error_kinds import CATEGORIES, categorize, summarize_errors

TEXT = "Ada Lovelace of London met Charles Babbage"


def document(*mentions: tuple[int, int, str], document_id: str = "d", text: str = TEXT) -> Document:
    return Document(document_id, text, tuple(Mention(*m) for m in mentions))


mentions = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 6), st.sampled_from(("LOC", "ORG", "PER"))).map(
        lambda m: (m[0], m[0] + m[1], m[2])
    ),
    max_size=8,
)


@pytest.mark.parametrize(
    ("gold", "predicted", "categories"),
    [
        ((0, 12, "PER"), (0, 12, "PER"), []),
        ((0, 12, "PER"), (0, 3, "PER"), ["boundary"]),
        ((0, 12, "PER"), (0, 12, "LOC"), ["type"]),
        ((0, 12, "PER"), (4, 15, "LOC"), ["boundary_and_type"]),
        ((0, 12, "PER"), (12, 15, "PER"), ["missed", "spurious"]),
    ],
)
def test_one_mention_each(gold, predicted, categories):
    assert [error.category for error in categorize([document(gold)], [document(predicted)])] == categories


def test_nested_mentions_by_hand():
    gold = [document((0, 22, "ORG"), (0, 12, "PER"), (16, 22, "LOC"), (27, 42, "PER"))]
    predicted = [document((0, 22, "ORG"), (0, 3, "PER"), (4, 12, "PER"), (16, 22, "ORG"), (35, 42, "LOC"))]
    found = {(e.category, e.gold, e.predicted) for e in categorize(gold, predicted)}
    assert found == {
        ("boundary", (0, 12, "PER"), (4, 12, "PER")),  # shares 8 of 12 characters, (0, 3) only 3
        ("spurious", None, (0, 3, "PER")),  # inside a gold mention that is taken
        ("type", (16, 22, "LOC"), (16, 22, "ORG")),
        ("boundary_and_type", (27, 42, "PER"), (35, 42, "LOC")),
    }


@given(st.lists(st.tuples(mentions, mentions), min_size=1, max_size=3))
def test_mistakes_pair_one_to_one_and_sum_to_false_positives_and_negatives(pairs):
    gold = [document(*g, document_id=str(i)) for i, (g, _) in enumerate(pairs)]
    predicted = [document(*p, document_id=str(i)) for i, (_, p) in enumerate(pairs)]
    errors, counts = categorize(gold, predicted), count_spans(gold, predicted)
    correct = counts.correct["exact"].sum()
    for side, total in (("gold", counts.gold.sum()), ("predicted", counts.predicted.sum())):
        keys = [(e.document_id, getattr(e, side)) for e in errors if getattr(e, side) is not None]
        assert len(keys) == len(set(keys)) == total - correct
    for document_id in {e.document_id for e in errors}:
        missed = [e.gold for e in errors if (e.document_id, e.category) == (document_id, "missed")]
        spurious = [e.predicted for e in errors if (e.document_id, e.category) == (document_id, "spurious")]
        assert not any(m[0] < s[1] and s[0] < m[1] for m in missed for s in spurious)
    summary = summarize_errors(errors, gold)
    assert summary["counts"] == {name: Counter(e.category for e in errors)[name] for name in CATEGORIES}
    assert sum(sum(row.values()) for row in summary["per_type"].values()) == len(errors)


def test_examples_show_both_mentions_in_context():
    gold, predicted = [document((0, 12, "PER"), (16, 22, "LOC"))], [document((4, 15, "ORG"))]
    examples = summarize_errors(categorize(gold, predicted), gold, context=5)["examples"]
    assert examples["boundary_and_type"] == [
        {
            "document_id": "d",
            "left": "",
            "text": "Ada Lovelace of",
            "right": " Lond…",
            "gold": {"start": 0, "end": 12, "type": "PER"},
            "predicted": {"start": 4, "end": 15, "type": "ORG"},
        }
    ]
    assert (examples["missed"][0]["left"], examples["missed"][0]["text"]) == ("…e of ", "London")
    assert examples["missed"][0]["predicted"] is None


def test_examples_are_spread_over_the_corpus():
    gold = [document((0, 3, "PER"), document_id=f"{i:02}") for i in range(30)]
    predicted = [document(document_id=f"{i:02}") for i in range(30)]
    summary = summarize_errors(categorize(gold, predicted), gold, examples=3)
    assert [e["document_id"] for e in summary["examples"]["missed"]] == ["00", "10", "20"]
    assert summary["counts"]["missed"] == 30
