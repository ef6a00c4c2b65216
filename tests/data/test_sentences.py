"""Sentences: exact spans in every script, nothing lost, long texts in bounded time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.data.sentences import (
    AROUND,
    PIECE,
    _starts,
    sentences_of,
    sentences_of_mentions,
    split_sentences,
)


def texts_of(text: str, language: str | None = None) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text, language)]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Dr. Smith met J. R. Jones. He left!", ["Dr. Smith met J. R. Jones.", "He left!"]),
        ("A line\nbroken here. And then.", ["A line\nbroken here.", "And then."]),
        ("CHAPTER I\n\nCall me Ishmael", ["CHAPTER I", "Call me Ishmael"]),
        ("Kelp\r\n \r\n  It grew.  ", ["Kelp", "It grew."]),
        ("私は学生です。彼は先生です！", ["私は学生です。", "彼は先生です！"]),
        ("यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"]),
        ("هل انت هنا؟ نعم.", ["هل انت هنا؟", "نعم."]),
        ("Ես գնացի։ Նա եկավ։", ["Ես գնացի։", "Նա եկավ։"]),
        ("👩\u200d👩\u200d👧 ran. 🇩🇪 won.", ["👩\u200d👩\u200d👧 ran.", "🇩🇪 won."]),
        ("no end of it", ["no end of it"]),
        ("\ud800. Half a pair.", ["\ud800.", "Half a pair."]),
        ("", []),
        (" \n\u2029\x1c ", []),
    ],
)
def test_sentences_of_many_scripts(text: str, sentences: list[str]) -> None:
    assert texts_of(text) == sentences


def test_a_language_brings_its_abbreviations() -> None:
    text = "La Dra. Gómez vino. Se fue."
    assert texts_of(text, "es-MX") == texts_of(text, "es") == ["La Dra. Gómez vino.", "Se fue."]
    assert texts_of("It ended. He left.", "no such language") == ["It ended.", "He left."]


marks = st.sampled_from(".!?。।…'\"“”「」()• \n\t\x00\x85\u00a0\u2029\u3000")
pieces = st.sampled_from(["Mr.", "A.", "v.", "1.", "a)", "\n\n", "\r\n"])


@given(st.one_of(st.text(), st.lists(st.one_of(marks, pieces, st.text(max_size=3))).map("".join)))
def test_sentences_are_in_order_and_hold_all_but_white_space(text: str) -> None:
    spans = split_sentences(text)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    edges = [0, *(place for span in spans for place in span), len(text)]
    gaps = [text[end:start] for end, start in zip(edges[::2], edges[1::2], strict=True)]
    assert not any(gap.strip() for gap in gaps)
    for start, end in spans:
        assert text[start:end] == text[start:end].strip() != ""


@given(st.lists(st.sampled_from(["The cat sat. ", "他来了。", "“Is it?” said Bob. ", "é"]), max_size=30))
def test_a_long_paragraph_is_split_as_if_it_were_short(parts: list[str]) -> None:
    """The same sentences follow a first one that fills more than a piece."""
    text = "".join(parts)
    head = "y" * (PIECE + 3) + ". "
    moved = [(start + len(head), end + len(head)) for start, end in split_sentences(text)]
    if text[:1] != "é":
        assert split_sentences(head + text) == [(0, len(head) - 1), *moved]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The cat sat on the mat. " * 10_000, 10_000),
        ("word " * 100_000 + ".", 1),
        ("word " * 400_000, 1),
        ("他来了。我走了！" * 50_000, 100_000),
        ("“Hi. " * 40_000, 40_000),
        ("\n " * 500_000, 0),
        ("." * 1_000_000, 1),
        (("Kelp grew. It was " + "very " * 6_000 + "tall. ") * 20, 40),
    ],
    ids=["repeated", "long", "endless", "unspaced", "open quotes", "blank", "stops", "short and long"],
)
def test_long_texts(text: str, count: int) -> None:
    spans = split_sentences(text)
    assert len(spans) == count
    assert sum(end - start - text[start:end].count(" ") for start, end in spans) == len("".join(text.split()))


def test_where_the_library_panics_is_one_sentence() -> None:
    """The text as `split_sentences` never gives it: with the white space on which the library panics."""
    assert _starts("A\u2029.A", "ja") == [0]
    assert texts_of("A\u2029.A", "ja") == ["A\u2029.A"]


def test_the_sentences_of_a_document_win() -> None:
    text = "It ended. He left."
    assert sentences_of(Document("d", text, sentences=((0, 2), (3, 18)))) == [(0, 2), (3, 18)]
    for own in (None, (), ((3, 18), (0, 2)), ((0, 9), (5, 18))):
        assert sentences_of(Document("d", text, sentences=own)) == [(0, 9), (10, 18)]


def test_each_mention_has_the_sentence_that_it_begins_in() -> None:
    text = "Ada came\nhome. It rained.  Ada slept, \t and so did Noor."
    places = [0, text.index("It"), text.index("Ada slept"), text.index("Noor")]
    document = Document("d", text, tuple(Mention(at, at + 2, "T") for at in places))
    last = "Ada slept, and so did Noor."
    assert sentences_of_mentions(document) == ["Ada came home.", "It rained.", last, last]
    assert sentences_of_mentions(Document("d", text)) == []


def test_of_a_long_sentence_what_is_around_the_mention_is_taken() -> None:
    text = "so " * 10_000 + "Ada" + " on" * 10_000
    at = text.index("Ada")
    mentions = (Mention(0, 2, "T"), Mention(at, at + 3, "T"), Mention(at - 3, len(text), "T"))
    document = Document("d", text, mentions, sentences=((0, len(text)),))
    first, middle, long = sentences_of_mentions(document)
    assert first == text[: AROUND + 2].strip()
    assert middle == text[at - AROUND : at + 3 + AROUND].strip()
    assert long.endswith(text[at - 3 :])
    outside = replace(document, sentences=((at, at + 3),))
    assert sentences_of_mentions(outside)[0] == "so"
