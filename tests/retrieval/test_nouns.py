"""Nouns: what the light tagger finds, and the taggers that need a library."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.words import find_words
from rayner.errors import InputError
from rayner.retrieval.nouns import light_nouns, noun_tagger

TEXTS = [
    "The old whale was near the ships.",
    "She saw that Ahab had fallen.",
    "Ahab shouted at the whale; it was a declaration of madness.",
    "Whale and boat went down.",
    "Quickly she sailed on, and quickly back.",
]


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in find_words(text)]


def test_heads_of_phrases_and_names_are_nouns() -> None:
    assert light_nouns([words_of(text) for text in TEXTS]) == [
        ["whale", "ships"],
        ["Ahab"],
        ["Ahab", "whale", "declaration", "madness"],
        ["Whale"],
        [],
    ]


def test_lemmas_bring_forms_together() -> None:
    sentences = [["The", "ships", "."], ["The", "ship", "."], ["the", "ladies", "."], ["The", "glass", "."]]
    assert light_nouns(sentences, lemmas=True) == [["ship"], ["ship"], ["lady"], ["glass"]]


def test_a_script_without_case_has_its_rare_words() -> None:
    sentences = [["और", "राम", "घर"], *([["और", f"शब्द{n}"] for n in range(30)])]
    assert light_nouns(sentences)[0] == ["राम", "घर"]


@given(st.lists(st.lists(st.text(min_size=1, max_size=4), max_size=6), max_size=6), st.booleans())
def test_any_words_can_be_tagged(sentences: list[list[str]], lemmas: bool) -> None:
    found = light_nouns(sentences, lemmas)
    assert len(found) == len(sentences)
    if not lemmas:
        assert all(set(nouns) <= set(words) for nouns, words in zip(found, sentences, strict=True))


@pytest.mark.parametrize("name", ["spacy", "nltk"])
@pytest.mark.parametrize("lemmas", [False, True])
def test_a_tagger_with_a_library(name: str, lemmas: bool) -> None:
    try:
        named, tagger = noun_tagger(name, lemmas)  # pyright: ignore[reportArgumentType]
    except InputError as error:
        pytest.skip(str(error))
    whale = "whale" if lemmas else "whales"
    assert (named, tagger([["The", whale, "saw", "Ahab", "."], []])) == (name, [[whale, "Ahab"], []])


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=r"^context\.nouns: spaCy with the pipeline en_core_web_sm is not"):
        noun_tagger("spacy", where="context.nouns")


def test_auto_is_one_that_works() -> None:
    name, tagger = noun_tagger("auto")
    assert name in ("spacy", "nltk", "light")
    assert tagger([["The", "whale", "."]]) == [["whale"]]
