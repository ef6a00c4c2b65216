from __future__ import annotations

import json
import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import IndexSettings
from rayner.data.mention_strings import MOST_CHARACTERS, MentionString
from rayner.data.schema import Entity
from rayner.errors import InputError
from rayner.metrics.nil import evidence
from rayner.tasks.predict import predict
from rayner.tasks.standardizer.predictor import Standardizer
from tests.tasks.standardizer.small_index import ENTITIES, SmallIndex
from tests.tasks.standardizer.small_standardizer import NIL, STRANGERS, standardizer


def test_answers_have_score_margin_probability_and_candidates():
    (answer,) = predict(standardizer(nil=NIL), ["postgres"])
    scores = [found.score for found in answer.candidates]
    assert (answer.entity_id, answer.candidates[0].matched, answer.reason) == ("pg", "Postgres", None)
    assert len(scores) == 5
    assert scores == sorted(scores, reverse=True)
    assert answer.margin == pytest.approx(scores[0] - scores[1])
    assert answer.probability == pytest.approx(float(NIL.probability(evidence([scores]))[0]))
    row = answer.to_row()
    assert (row["entity_id"], row["name"], row["matched"]) == ("pg", "PostgreSQL", "Postgres")
    assert [row["candidates"][0][name] for name in ("name", "matched")] == ["PostgreSQL", "Postgres"]


@pytest.mark.parametrize(
    ("mention", "reason"),
    [
        ("", "empty"),
        (" \t\n", "empty"),
        ("?!… —", "only punctuation"),
        ("\u200b\u0000", "only punctuation"),
        ("\ud800 x", "half a surrogate pair, which is no character"),
        ("x" * 10_000, f"longer than {MOST_CHARACTERS} characters"),
    ],
)
def test_a_mention_that_names_nothing_is_nil_with_a_reason(mention: str, reason: str):
    index = SmallIndex()
    for options in ({}, {"nil": NIL}, {"nil": NIL, "operating_point": "never"}):
        answers = list(predict(standardizer(index, **options), ["nginx", mention, "MySQL"]))
        assert [a.entity_id for a in answers] == ["ng", None, "my"]
        assert (answers[1].text, answers[1].reason, answers[1].candidates) == (mention, reason, ())
        assert answers[1].probability == (0.0 if options else None)
        row = json.loads(json.dumps(answers[1].to_row(), allow_nan=False))
        assert (row["score"], row["margin"]) == (None, None)
    assert all(mention not in texts for texts in index.searched)


def test_equal_mentions_have_one_answer_however_they_are_written() -> None:
    written = ("MySQL", "MySQL" + " " * 600)
    assert [a.entity_id for a in predict(standardizer(), written)] == ["my", "my"]
    composed = "각" * 260
    decomposed = unicodedata.normalize("NFD", composed)
    assert len(decomposed) > MOST_CHARACTERS
    first, second = predict(standardizer(), [composed, decomposed])
    assert (first.reason, second.reason) == (None, None)
    assert [one.score for one in first.candidates] == [one.score for one in second.candidates]


@pytest.mark.parametrize(
    "mention", ["アンドロイド", "постгрес", "数据库", "€", "C++", "🐘", "ﷺ", "a" * MOST_CHARACTERS]
)
def test_other_scripts_and_symbols_have_an_answer(mention: str):
    (answer,) = predict(standardizer(nil=NIL), [mention])
    assert answer.candidates
    assert answer.probability is not None
    assert (answer.entity_id is None) == (answer.reason is not None)


def test_a_mention_is_searched_with_its_letters_composed():
    index = SmallIndex()
    mention = unicodedata.normalize("NFD", "데이터  café")
    (answer,) = predict(standardizer(index), [mention])
    assert [text for texts in index.searched for text in texts] == ["데이터 caf\u00e9"]
    assert answer.text == mention


@given(st.lists(st.text(max_size=12), max_size=20))
def test_one_answer_for_each_mention_in_order(mentions: list[str]):
    answers = list(predict(standardizer(nil=NIL), mentions, tokens_per_batch=16))
    assert [a.text for a in answers] == mentions
    alone = [next(iter(predict(standardizer(nil=NIL), [m]))) for m in mentions]
    assert [a.entity_id for a in answers] == [a.entity_id for a in alone]
    np.testing.assert_allclose([a.score for a in answers], [a.score for a in alone], atol=1e-6)


def test_equal_mentions_are_searched_once():
    index = SmallIndex()
    answers = list(predict(standardizer(index), ["nginx", "MySQL", "nginx", " nginx  "]))
    assert sorted(text for texts in index.searched for text in texts) == ["MySQL", "nginx"]
    assert [a.text for a in answers] == ["nginx", "MySQL", "nginx", " nginx  "]


def test_stricter_points_answer_less():
    mentions = ["Postgre", "mysql 5", "Andriod", "red hat", "nginks", *STRANGERS]
    linked = {
        point: {
            a.text
            for a in predict(standardizer(nil=NIL, operating_point=point, nil_share=0.5), mentions)
            if a.entity_id
        }
        for point in ("high_precision", "accuracy", "high_recall", "never")
    }
    assert linked["high_precision"] <= linked["accuracy"] <= linked["high_recall"] <= linked["never"]
    assert linked["never"] == set(mentions)
    assert linked["accuracy"].isdisjoint(STRANGERS)
    nil = [a for a in predict(standardizer(nil=NIL, nil_share=0.5), STRANGERS) if a.entity_id is None]
    assert nil[0].reason == "below the threshold of accuracy"
    assert nil[0].candidates


def test_a_point_without_a_calibration_is_an_error_and_without_either_nothing_is_nil():
    with pytest.raises(InputError, match="negatives"):
        standardizer(operating_point="accuracy")
    with pytest.raises(InputError, match=r"nil_share: 0\.2 needs a calibration"):
        standardizer(nil_share=0.2)
    (answer,) = predict(standardizer(), ["toothbrush"])
    assert answer.entity_id is not None
    assert answer.probability is None


def test_the_more_mentions_are_nil_the_less_probable_an_entity_is():
    mentions = ["Postgre", "mysql 5", "Andriod", "red hat", *STRANGERS]
    answers = {
        share: list(predict(standardizer(nil=NIL, nil_share=share), mentions)) for share in (0, 0.1, 0.5, 1)
    }
    table = np.array([[a.probability for a in of] for of in answers.values()])
    assert (np.diff(table, axis=0) < 0).all()
    assert (table[-1] == 0).all()
    linked = [sum(a.entity_id is not None for a in of) for of in answers.values()]
    assert linked == sorted(linked, reverse=True)
    assert (linked[0], linked[-1]) == (len(mentions), 0)
    assert answers[0.1] == list(predict(standardizer(nil=NIL), mentions))


def test_the_share_of_nil_stays_where_no_other_is_asked_for():
    def probability(model: Standardizer) -> float | None:
        (answer,) = predict(model, ["mysql 5"])
        return answer.probability

    first = standardizer(nil=NIL, nil_share=0.4)
    assert probability(first.adjusted(1, "never", None)) == probability(first)
    assert probability(first.adjusted(1, "never", 0.2)) == probability(standardizer(nil=NIL, nil_share=0.2))
    assert (first.calibrated, standardizer().calibrated) == (True, False)
    with pytest.raises(InputError, match=r"nil_share: 0\.2 needs a calibration"):
        standardizer().adjusted(1, None, 0.2)
    assert probability(standardizer().adjusted(1, None, None)) is None


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan, math.inf])
def test_what_is_no_share_is_refused(share: float):
    with pytest.raises(InputError, match=r"nil_share: is .*\[0, 1\]"):
        standardizer(nil=NIL, nil_share=share)


def test_few_candidates_keep_their_margin_and_one_entity_has_none():
    (five,), (one,) = (list(predict(standardizer(top_k=k, nil=NIL), ["postgres"])) for k in (5, 1))
    assert (len(one.candidates), one.margin, one.probability) == (1, five.margin, five.probability)
    (only,) = predict(standardizer(SmallIndex(ENTITIES[:1]), nil=NIL), ["postgres"])
    assert (only.entity_id, only.margin) == ("pg", math.inf)
    assert 0 < (only.probability or 0) < 1
    (none,) = predict(standardizer(SmallIndex(()), nil=NIL), ["postgres"])
    assert (none.entity_id, none.reason, none.probability) == (None, "no candidate", 0.0)


def test_evaluation_parts_seen_from_unseen_and_counts_mistakes():
    gold = [
        MentionString("POSTGRES", ("pg",)),
        MentionString("Andriod", ("an",)),
        MentionString("toothbrush", ()),
        MentionString("RHEL", ("my",)),
    ]
    one = standardizer(nil=NIL)
    metrics = one.evaluate(list(predict(one, gold)), gold)
    assert (metrics["seen"]["mentions"], metrics["seen"]["top1"], metrics["unseen"]["top1"]) == (2, 0.5, 1.0)
    assert (metrics["nil_recall"], metrics["nil_auc"]) == (1.0, 1.0)
    assert metrics["errors"]["counts"]["no_match"] == 1


def test_aliases_that_are_not_in_the_index_are_unseen():
    gold = [MentionString("psql", ("pg",)), MentionString("postgresql", ("pg",))]
    one = standardizer(SmallIndex(settings=IndexSettings(aliases=False)))
    metrics = one.evaluate(list(predict(one, gold)), gold)
    assert (metrics["seen"]["mentions"], metrics["unseen"]["mentions"]) == (1, 1)


def test_what_the_index_finds_is_seen():
    """The halves of `Long Form (LF)` are names of it."""
    index = SmallIndex([*ENTITIES, Entity("hd", "Huntington disease (HD)")])
    asked = standardizer(index=index)
    gold = [MentionString(text, ("hd",)) for text in ("HD", "huntington disease", "chorea")]
    scores = asked.evaluate(list(predict(asked, gold)), gold)
    assert (scores["seen"]["mentions"], scores["unseen"]["mentions"]) == (2, 1)
