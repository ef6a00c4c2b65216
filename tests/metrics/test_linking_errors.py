from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.metrics.linking import seen_among
from rayner.metrics.linking_errors import (
    categorize_answers,
    category_of,
    edits,
    summarize_answer_errors,
    telling_texts,
)
from tests.metrics.given_answers import Found, Given, Gold

NAMES = {
    "android": ("Android",),
    "vb": ("Visual Basic", "VB"),
    "basic": ("BASIC",),
    "nes": ("Netscape Enterprise Server",),
    "iib": ("IBM Integration Bus",),
    "cordova": ("Apache Cordova",),
    "mq": ("IBM Websphere MQ", "IBM WebSphere Messages"),
    "msmq": ("Microsoft MQ",),
    "liberty": ("WebSphere Liberty",),
    "minio": ("MinIO",),
    "java": ("Java",),
    "lava": ("Lava",),
    "dns": ("Domain Name of the System",),
}
VOCABULARY = {word.lower() for names in NAMES.values() for name in names for word in name.split()}


@pytest.mark.parametrize(
    ("text", "entity", "category"),
    [
        # papers/002, table 2
        ("Andriod", "android", "misspelling"),
        ("Visusal Basic", "vb", "misspelling"),
        ("NES", "nes", "acronym"),
        ("IIB", "iib", "acronym"),
        ("Cordova Android", "cordova", "multi_match"),
        ("MQ 9.1", "mq", "multi_match"),
        ("Open Liberty", "liberty", "multi_match"),
        # and what could be taken for something else
        ("Lava", "java", "no_match"),
        ("nes 4", "nes", "acronym"),
        ("IWM", "mq", "acronym"),
        ("WSL", "liberty", "acronym"),
        ("DNS", "dns", "acronym"),
        ("Netscape Enterprise Srever", "nes", "misspelling"),
        ("minio-server", "minio", "multi_match"),
        ("Windows", "java", "no_match"),
        ("", "java", "no_match"),
        ("アンドロイド", "android", "no_match"),
        ("?", "java", "no_match"),
    ],
)
def test_the_categories_of_the_paper(text: str, entity: str, category: str):
    assert category_of(text, NAMES[entity], VOCABULARY) == category


def test_an_acronym_of_the_entity_counts_from_either_side():
    assert category_of("Object Storage Server", ["OSS"], set()) == "acronym"


@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_edits_equal_the_slow_definition(a: str, b: str):
    def slow(a: str, b: str) -> int:
        if not a or not b:
            return len(a) + len(b)
        best = min(slow(a[1:], b) + 1, slow(a, b[1:]) + 1, slow(a[1:], b[1:]) + (a[0] != b[0]))
        if len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0]:
            best = min(best, slow(a[2:], b[2:]) + 1)
        return best

    assert edits(a[:5], b[:5]) == slow(a[:5], b[:5])


def test_mistakes_about_nil_have_categories_of_their_own():
    java, lava = Found("java", "Java"), Found("lava", "Lava")
    gold = [
        Gold("java", ("java",)),
        Gold("java", ("java",)),
        Gold("tea", ()),
        Gold("tea", ()),
        Gold("nes", ("nes",)),
    ]
    answers = [
        Given("java", 0.5, (java, lava)),
        Given(None, 0.5, (java, lava)),
        Given(None, 0.5, (lava,)),
        Given("lava", 0.5, (lava,)),
        Given(None, 0.5, ()),
    ]
    errors = categorize_answers(gold, answers, NAMES)
    assert [(e.category, e.gold, e.predicted) for e in errors] == [
        ("judged_nil", "Java", None),
        ("nil_linked", None, "Lava"),
        ("acronym", "Netscape Enterprise Server", None),
    ]


def test_an_answer_of_several_entities_is_a_mistake_where_it_is_wrong():
    java, lava = Found("java", "Java"), Found("lava", "Lava")
    gold = [Gold("java", ("java",)), Gold("java", ("java",)), Gold("java and lava", ("java", "lava"))]
    answers = [
        Given("java|lava", 0.5, (java, lava)),
        # Its first part was NIL.
        Given("java", 0.5, (lava, java)),
        Given("java|lava", 0.5, (lava, java)),
    ]
    errors = categorize_answers(gold, answers, NAMES)
    assert [(e.text, e.category, e.predicted) for e in errors] == [("java", "multi_match", "Java | Lava")]


PARTS = st.sampled_from(["Java", "JAVA", "jvaa", "ee", "8", "-"])
TEXTS = st.lists(st.lists(PARTS, max_size=3).map(" ".join))


@given(mentions=TEXTS, texts=TEXTS)
def test_few_texts_tell_of_mentions_what_all_tell(mentions: list[str], texts: list[str]):
    gold = [Gold(text, ("java",)) for text in mentions]
    answers = [Given("lava", 0.5, (Found("lava", "Lava"),))] * len(gold)
    few = telling_texts(gold, texts)
    assert list(seen_among(gold, few)) == list(seen_among(gold, texts))
    assert categorize_answers(gold, answers, NAMES, few) == categorize_answers(gold, answers, NAMES, texts)
    assert len(few) <= len({text.casefold() for text in mentions}) + len({"java", "jvaa", "ee", "8"})


def test_texts_that_tell_nothing_new_are_not_kept():
    gold = [Gold("big java", ()), Gold("Small", ())]
    assert telling_texts(gold, ["Java SE", "x", "java EE", " SMALL", "small big", "small"]) == [
        "Java SE",
        " SMALL",
        "small big",
    ]


def test_an_entity_that_the_names_lack_is_shown_by_its_id():
    (error,) = categorize_answers(
        [Gold("x", ("gone", "away"))], [Given("java", 0.5, (Found("java", "Java"),))], NAMES
    )
    assert (error.gold, error.category) == ("gone|away", "no_match")


def test_examples_are_few_and_different():
    gold = [Gold(f"Andriod{'' if i < 50 else i}", ("android",)) for i in range(100)]
    errors = categorize_answers(gold, [Given("java", 0.5, (Found("java", "Java"),))] * 100, NAMES)
    summary = summarize_answer_errors(errors, examples=4)
    assert summary["counts"]["misspelling"] == 100
    texts = [row["text"] for row in summary["examples"]["misspelling"]]
    assert len(texts) == len(set(texts)) == 4
    assert set(summary["examples"]) == set(summary["counts"])
    json.dumps(summary)
