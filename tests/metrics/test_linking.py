from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, label_ranking_average_precision_score, precision_score, recall_score

from rayner.metrics.linking import RANKS, coverage_points, judge, roc_points, score_linking, seen_among
from rayner.metrics.linking_intervals import linking_intervals
from tests.metrics.given_answers import Found, Given, Gold, answer

ENTITIES = "abcdefg"


@st.composite
def linkings(draw: st.DrawFn) -> tuple[list[Gold], list[Given]]:
    rows = draw(
        st.lists(
            st.tuples(
                st.sets(st.sampled_from(ENTITIES), max_size=2),
                st.permutations(ENTITIES),
                st.integers(0, 4),
                st.booleans(),
            ),
            min_size=1,
            max_size=30,
        )
    )
    gold = [Gold(f"m{i}", tuple(sorted(ids))) for i, (ids, *_) in enumerate(rows)]
    return gold, [answer("".join(order), score / 4, nil) for _, order, score, nil in rows]


@given(linkings())
def test_scores_equal_their_definitions(linking: tuple[list[Gold], list[Given]]):
    gold, answers = linking
    scores = score_linking(gold, answers)
    linkable = [(g, a) for g, a in zip(gold, answers, strict=True) if g.entity_ids]
    for k in (1, 3, 5):
        hits = [bool({f.entity_id for f in a.candidates[:k]} & set(g.entity_ids)) for g, a in linkable]
        assert scores[f"top{k}"] == (pytest.approx(np.mean(hits)) if hits else None)
    single = [(g, a) for g, a in linkable if len(g.entity_ids) == 1]
    if single and len(single) == len(linkable):
        truth = np.array([[e == g.entity_ids[0] for e in ENTITIES] for g, _ in single])
        places = np.array(
            [[-[f.entity_id for f in a.candidates].index(e) for e in ENTITIES] for _, a in single]
        )
        assert scores["mrr"] == pytest.approx(label_ranking_average_precision_score(truth, places))
    nil, refused = [not g.entity_ids for g in gold], [a.entity_id is None for a in answers]
    if any(nil):
        assert scores["nil_precision"] == pytest.approx(precision_score(nil, refused, zero_division=0))
        assert scores["nil_recall"] == pytest.approx(recall_score(nil, refused))
    if any(nil) and not all(nil):
        high = [a.score for a, n in zip(answers, nil, strict=True) if not n]
        low = [a.score for a, n in zip(answers, nil, strict=True) if n]
        wins = np.mean([(h > x) + (h == x) / 2 for h in high for x in low])
        assert scores["nil_auc"] == pytest.approx(wins)
        roc = roc_points(judge(gold, answers))
        assert auc([p["fpr"] for p in roc], [p["tpr"] for p in roc]) == pytest.approx(wins)


@given(linkings())
def test_coverage_equals_its_definition(linking: tuple[list[Gold], list[Given]]):
    gold, answers = linking
    points = coverage_points(judge(gold, answers))
    assert points[-1]["coverage"] == 1
    assert [p["coverage"] for p in points] == sorted({p["coverage"] for p in points})
    for point in points:
        kept = [
            bool(g.entity_ids) and a.candidates[0].entity_id in g.entity_ids
            for g, a in zip(gold, answers, strict=True)
            if a.score >= point["confidence"]
        ]
        assert point["coverage"] == pytest.approx(len(kept) / len(gold))
        assert point["accuracy"] == pytest.approx(np.mean(kept))


def test_seen_and_unseen_strings_are_apart():
    gold = [Gold("Postgres", ("a",)), Gold(" postgreSQL ", ("a",)), Gold("MySQL", ("b",)), Gold("zzz", ())]
    answers = [answer("ab", 0.9), answer("ba", 0.8), answer("ba", 0.7), answer("ab", 0.1, nil=True)]
    scores = score_linking(gold, answers, known=["POSTGRESQL", "MySQL"])
    assert (scores["seen"]["mentions"], scores["unseen"]["mentions"]) == (2, 2)
    assert (scores["seen"]["top1"], scores["unseen"]["top1"], scores["top1"]) == (0.5, 1.0, 2 / 3)
    assert (scores["seen"]["nil_auc"], scores["seen"]["nil_recall"]) == (None, None)
    assert scores["accuracy"] == 0.75
    assert seen_among([Gold("breast\ncancer", ())], ["Breast  Cancer"]).all()


def test_top_is_of_candidates_and_nil_of_answers():
    scores = score_linking(
        [Gold("x", ("a",)), Gold("y", ())], [answer("ab", 0.2, nil=True), answer("b", 0.3)]
    )
    assert (scores["top1"], scores["accuracy"], scores["nil_precision"]) == (1.0, 0.0, 0.0)
    assert (scores["nil_recall"], scores["nil_auc"]) == (0.0, 0.0)


def test_reciprocal_ranks_are_of_the_first_ten_however_many_candidates_there_are():
    ids = "abcdefghijkl"
    gold = [Gold(str(rank), (ids[rank - 1],)) for rank in (1, RANKS, RANKS + 1)]
    answers = [answer(ids, 0.5)] * 3
    assert score_linking(gold, answers)["mrr"] == pytest.approx((1 + 1 / RANKS) / 3)
    assert linking_intervals(gold, answers)["mrr"] == [0.0, 1.0]


def test_what_has_no_candidate_and_what_has_no_mention():
    scores = score_linking([Gold("", ()), Gold("x", ("a",))], [answer("", -math.inf), answer("a", 0.1)])
    assert (scores["nil_auc"], scores["nil_recall"], scores["mrr"]) == (1.0, 1.0, 1.0)
    nothing = score_linking([], [])
    assert (nothing["top1"], nothing["mrr"], nothing["nil_auc"], nothing["mentions"]) == (None, None, None, 0)
    assert roc_points(judge([], [])) == coverage_points(judge([], [])) == []


def test_probabilities_rank_where_all_answers_have_one():
    gold = [Gold("x", ("a",)), Gold("y", ())]
    both = [Given("a", 0.1, (Found("a"),), 0.9), Given(None, 0.7, (Found("b"),), 0.2)]
    assert score_linking(gold, both)["nil_auc"] == 1.0
    assert score_linking(gold, [both[0], Given(None, 0.7, (Found("b"),))])["nil_auc"] == 0.0


def test_curves_are_short():
    rng = np.random.default_rng(0)
    gold = [Gold(str(i), ("a",) if i % 3 else ()) for i in range(5000)]
    answers = [answer("ab", float(s)) for s in rng.random(5000)]
    judged = judge(gold, answers)
    assert len(coverage_points(judged)) <= 200
    roc = roc_points(judged)
    assert len(roc) <= 200
    assert (roc[0], roc[-1]) == ({"fpr": 0, "tpr": 0}, {"fpr": 1, "tpr": 1})
