from __future__ import annotations

import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document
from rayner.data.words import find_words, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("COVID-19 in my_var", ["COVID", "-", "19", "in", "my", "_", "var"]),
        ("naïve re\u0301sume\u0301", ["naïve", "re\u0301sume\u0301"]),
        ("東京タワーへ", ["東", "京", "タワー", "へ"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("👩\u200d👩\u200d👧 ok 🇩🇪!", ["👩\u200d👩\u200d👧", "ok", "🇩🇪", "!"]),
        ("نمی\u200cخواهم שלום", ["نمی\u200cخواهم", "שלום"]),
        ("a\x00b\ufeff c\u00ad", ["a", "b", "c"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_words_of_many_scripts(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in find_words(text)] == words


@given(st.text())
def test_words_are_in_order_and_hold_every_letter_and_digit(text: str) -> None:
    spans = find_words(text)
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    covered = {i for start, end in spans for i in range(start, end)}
    missing = {i for i, c in enumerate(text) if unicodedata.category(c)[0] in "LN"} - covered
    assert not missing


def test_flags_are_words_in_time_that_grows_with_their_number() -> None:
    german, french = "\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"
    text = f"a{german}{french}\u200d b{german[0]}"
    assert [text[a:b] for a, b in find_words(text)] == ["a", german, f"{french}\u200d", "b", german[0]]
    begin = time.process_time()
    assert len(find_words(german * 100_000)) == 100_000
    # Far more than that many take, and far less than their square.
    assert time.process_time() - begin < 30


def test_a_corpus_may_bring_its_own_words() -> None:
    document = Document("d", "can't stop", words=((0, 2), (2, 5), (6, 10)))
    assert words_of(document, "corpus") == [(0, 2), (2, 5), (6, 10)]
    assert words_of(document, "text") == [(0, 3), (3, 4), (4, 5), (6, 10)]


def test_white_space_alone_is_no_word_of_a_corpus() -> None:
    """Tokens of spaCy or of a byte-level tokenizer are such, and an empty cell of a table."""
    words = ((0, 0), (0, 4), (4, 5), (5, 6), (6, 9), (9, 9))
    assert words_of(Document("d", "Ann \n ran", words=words), "corpus") == [(0, 4), (6, 9)]


@pytest.mark.parametrize("words", [((4, 7), (0, 3)), ((0, 7), (4, 7)), ((0, 3), (0, 3))])
def test_words_of_a_corpus_that_are_no_words_count_as_none(words: tuple[tuple[int, int], ...]) -> None:
    assert words_of(Document("d", "Ann ran", words=words), "corpus") == [(0, 3), (4, 7)]
