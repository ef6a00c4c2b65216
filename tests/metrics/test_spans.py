from __future__ import annotations

import tracemalloc
import warnings
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from nervaluate import Evaluator
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.scheme import IOB2

from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError
from rayner.metrics.counts import align, count_spans
from rayner.metrics.spans import score_spans
from tests.metrics.dense_counts import dense_counts, spread

TYPES = ("LOC", "ORG", "PER")
LENGTH = 12


def document(*mentions: tuple[int, int, str], document_id: str = "d", **fields) -> Document:
    return Document(document_id, "x" * LENGTH, tuple(Mention(*m) for m in mentions), **fields)


@st.composite
def flat_mentions(draw, types=TYPES) -> list[tuple[int, int, str]]:
    edges = sorted(draw(st.sets(st.integers(0, LENGTH), max_size=LENGTH)))
    spans = [pair for pair in pairwise(edges) if draw(st.booleans())]
    return [(start, end, draw(st.sampled_from(types))) for start, end in spans]


nested_mentions = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 4), st.sampled_from(TYPES)).map(
        lambda m: (m[0], m[0] + m[1], m[2])
    )
)


def corpus(mentions: list[list[tuple[int, int, str]]]) -> list[Document]:
    return [document(*m, document_id=str(i)) for i, m in enumerate(mentions)]


def tags(mentions: list[tuple[int, int, str]]) -> list[str]:
    row = ["O"] * LENGTH
    for start, end, name in mentions:
        row[start:end] = [f"B-{name}"] + [f"I-{name}"] * (end - start - 1)
    return row


def entities(mentions: list[tuple[int, int, str]]) -> list[dict]:
    return [{"label": name, "start": start, "end": end - 1} for start, end, name in mentions]


pairs_of_flat = st.lists(st.tuples(flat_mentions(), flat_mentions()), min_size=1, max_size=4)


@given(pairs_of_flat)
def test_flat_spans_score_as_in_seqeval_strict(pairs):
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    ours = score_spans(corpus(gold), corpus(predicted))
    arguments = ([tags(g) for g in gold], [tags(p) for p in predicted])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # seqeval warns of every 0 / 0
        for name, function in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
            theirs = function(*arguments, mode="strict", scheme=IOB2, zero_division=0)
            assert ours[name] == pytest.approx(theirs)
        per_type = f1_score(*arguments, mode="strict", scheme=IOB2, zero_division=0, average=None)
        macro = f1_score(*arguments, mode="strict", scheme=IOB2, zero_division=0, average="macro")
    if ours["per_type"]:
        assert [scores["f1"] for scores in ours["per_type"].values()] == pytest.approx(list(per_type))
        assert ours["macro_f1"] == pytest.approx(macro)


def nervaluate(gold, predicted, strategy: str):
    evaluator = Evaluator([entities(g) for g in gold], [entities(p) for p in predicted], list(TYPES), "dict")
    return evaluator.evaluate()["overall"][strategy]


@given(pairs_of_flat)
def test_flat_spans_score_as_in_nervaluate_strict_and_exact(pairs):
    gold, predicted = [g for g, _ in pairs], [p for _, p in pairs]
    ours, theirs = score_spans(corpus(gold), corpus(predicted)), nervaluate(gold, predicted, "strict")
    assert (ours["precision"], ours["recall"]) == pytest.approx((theirs.precision, theirs.recall))
    untyped = [[[(s, e, "PER") for s, e, _ in m] for m in side] for side in (gold, predicted)]
    ours, theirs = score_spans(*map(corpus, untyped)), nervaluate(gold, predicted, "exact")
    assert (ours["precision"], ours["recall"]) == pytest.approx((theirs.precision, theirs.recall))


@given(flat_mentions(types=("PER",)), flat_mentions(types=("PER",)))
def test_loose_is_nervaluate_ent_type_where_no_span_overlaps_two(gold, predicted):
    def overlaps(a, others):
        return sum(a[0] < b[1] and b[0] < a[1] for b in others)

    assume(all(overlaps(a, predicted) < 2 for a in gold) and all(overlaps(a, gold) < 2 for a in predicted))
    theirs = nervaluate([gold], [predicted], "ent_type")
    assert score_spans(corpus([gold]), corpus([predicted]))["loose_f1"] == pytest.approx(theirs.f1)


@st.composite
def partly_annotated(draw) -> tuple[list[Document], list[Document], list[str]]:
    """Gold and predicted documents, and types in any order, of which some do not occur."""
    pairs = draw(st.lists(st.tuples(nested_mentions, nested_mentions), max_size=4))
    known = st.none() | st.sets(st.sampled_from(TYPES)).map(sorted).map(tuple)
    gold = [replace(one, annotated_types=draw(known)) for one in corpus([g for g, _ in pairs])]
    types = draw(st.lists(st.sampled_from([*TYPES, "GPE", "DATE"]), unique=True))
    return gold, draw(st.permutations(corpus([p for _, p in pairs]))), types


@given(partly_annotated())
def test_counts_of_nested_spans_are_those_of_the_definition(drawn):
    gold, predicted, types = drawn
    counts = count_spans(gold, predicted, types)
    assert counts.types == tuple(types)
    expected, found = dense_counts(gold, predicted, types), spread(counts)
    for name, table in expected.items():
        assert (found[name] == table).all(), name
        cells = found[name][counts.rows, counts.columns]
        assert (counts.per_type(cells) == table.sum(0)).all()
    # Every cell has a mention, and none is there twice.
    assert (counts.predicted + counts.gold > 0).all()
    assert len(set(zip(counts.rows, counts.columns, strict=True))) == len(counts.rows)


@given(partly_annotated())
def test_types_that_do_not_occur_change_no_score(drawn):
    gold, predicted, _ = drawn
    occurring = score_spans(gold, predicted)
    per_type = occurring.pop("per_type")
    among_many = score_spans(gold, predicted, [f"T{i}" for i in range(50)] + list(TYPES))
    for name, row in among_many.pop("per_type").items():
        assert row == per_type.get(name, {"precision": 0, "recall": 0, "f1": 0, "support": 0})
    assert among_many == occurring


def test_ten_thousand_types_take_the_memory_of_what_occurs():
    names = [f"T{i}" for i in range(10_000)]
    mentions = [[(s, s + 1, names[(7 * i + s) % 10_000]) for s in range(5)] for i in range(2000)]
    gold, predicted = corpus(mentions), corpus([m[1:] for m in mentions])
    tracemalloc.start(1)
    try:
        scores = score_spans(gold, predicted, names)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (scores["precision"], scores["recall"], scores["support"]) == (1, 0.8, 10_000)
    assert len(scores["per_type"]) == 10_000
    assert peak < 40 * 2**20  # a number for each document and type: 1.6 GB


def test_nested_mentions_by_hand():
    gold = [document((0, 6, "ORG"), (0, 2, "LOC"), (4, 6, "ORG"), (8, 9, "PER"))]
    predicted = [document((0, 6, "ORG"), (0, 2, "LOC"), (5, 6, "ORG"), (8, 10, "PER"), (11, 12, "PER"))]
    scores = score_spans(gold, predicted)
    assert (scores["precision"], scores["recall"]) == (2 / 5, 2 / 4)
    assert scores["f1"] == pytest.approx(4 / 9)
    assert scores["start_f1"] == pytest.approx(2 * 3 / 9)  # and (8, PER)
    assert scores["end_f1"] == pytest.approx(2 * 3 / 9)  # and (6, ORG), which ends two gold mentions
    assert scores["loose_f1"] == pytest.approx(2 * (4 / 5) * 1 / (4 / 5 + 1))
    assert scores["per_type"]["ORG"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2}
    assert scores["per_type"]["PER"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    assert scores["macro_f1"] == pytest.approx((1 + 0.5 + 0) / 3)


def test_two_mentions_with_one_start_are_two_starts():
    scores = score_spans([document((0, 2, "ORG"), (0, 5, "ORG"))], [document((0, 2, "ORG"))])
    assert scores["start_f1"] == scores["f1"] == pytest.approx(2 / 3)


def test_nothing_to_find_scores_zero_and_leaves_the_type_out_of_the_macro_mean():
    empty = score_spans([document()], [document()], ["PER"])
    assert (empty["precision"], empty["recall"], empty["f1"], empty["macro_f1"]) == (0, 0, 0, 0)
    scores = score_spans([document((0, 1, "PER"))], [document((0, 1, "PER"))], ["PER", "LOC"])
    assert scores["macro_f1"] == 1
    assert scores["per_type"]["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}


def test_predictions_of_types_that_nobody_annotated_do_not_count():
    gold = [document((0, 1, "PER"), annotated_types=("PER",)), document((0, 1, "LOC"), document_id="e")]
    predicted = [document((0, 1, "PER"), (3, 4, "LOC")), document((0, 1, "LOC"), document_id="e")]
    scores = score_spans(gold, predicted)
    assert (scores["f1"], scores["ignored"]) == (1, 1)
    assert score_spans(gold, predicted, ["PER"])["ignored"] == 0
    assert score_spans([replace(gold[0], annotated_types=())], predicted[:1])["ignored"] == 2


def test_nobody_knows_whether_a_mention_of_unknown_type_is_found_rightly():
    gold = [document((0, 1, "PER"), (8, 12, "?"))]
    predicted = [document((0, 1, "PER"), (8, 12, "ORG"), (8, 11, "ORG"))]
    for types in (None, ["PER", "ORG"]):
        scores = score_spans(gold, predicted, types)
        assert (scores["precision"], scores["recall"], scores["ignored"]) == (0.5, 1.0, 1)


def test_the_types_given_limit_both_sides():
    scores = score_spans([document((0, 1, "PER"))], [document((0, 1, "PER"), (3, 4, "LOC"))], ["PER"])
    assert list(scores["per_type"]) == ["PER"]
    assert scores["precision"] == 1


def test_documents_are_paired_by_id_in_any_order():
    gold = [document((0, 1, "PER")), document(document_id="e")]
    assert score_spans(gold, gold[::-1])["f1"] == 1
    assert [(g.document_id, p.document_id) for g, p in align(gold, gold[::-1])] == [("d", "d"), ("e", "e")]


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ([document()], "document 'e': not among the predicted documents"),
        (
            [document(), document(document_id="e"), document(document_id="f")],
            "document 'f': not among the gold",
        ),
        ([document(), document()], "predicted document 'd': the id occurs twice"),
    ],
)
def test_ids_that_do_not_agree_are_named(predicted, message):
    with pytest.raises(CorpusError, match=message):
        score_spans([document(), document(document_id="e")], predicted)
