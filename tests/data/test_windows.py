from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Span
from rayner.data.windows import SubWords, cut, locate, owner, split_into_subwords
from rayner.data.words import find_words

UNKNOWN = 0


def two_characters_a_token(text: str) -> tuple[list[int], list[Span]]:
    """A tokenizer that knows nothing of words: pairs of characters, spaces dropped."""
    spans = [(i, min(i + 2, len(text))) for i in range(0, len(text), 2)]
    kept = [(a, b) for a, b in spans if text[a:b].strip()]
    return [1 + sum(map(ord, text[a:b])) % 1000 for a, b in kept], kept


def subwords_of_lengths(lengths: list[int]) -> SubWords:
    """Words of the given numbers of sub-words, one character each."""
    last = np.cumsum(lengths) - 1
    words = [(int(end - n + 1), int(end + 1)) for end, n in zip(last, lengths, strict=True)]
    word_of = np.repeat(np.arange(len(lengths)), lengths)
    return SubWords(
        np.zeros(sum(lengths), dtype=np.int32), word_of, last - np.array(lengths) + 1, last, words
    )


@given(st.text(alphabet="ab ,京\u0301🙂", max_size=60))
def test_every_subword_lies_in_one_word_and_every_word_has_one(text: str) -> None:
    words = find_words(text)
    subwords = split_into_subwords(text, words, two_characters_a_token, UNKNOWN)
    assert len(subwords.first) == len(words)
    for index in range(len(words)):
        positions = np.flatnonzero(subwords.word_of == index)
        assert positions[0] == subwords.first[index]
        assert positions[-1] == subwords.last[index]
    assert subwords.is_first(0, len(subwords)).sum() == subwords.is_last(0, len(subwords)).sum() == len(words)


def test_a_word_that_the_tokenizer_drops_stays_a_word() -> None:
    def drops_b(text: str) -> tuple[list[int], list[Span]]:
        kept = [i for i, c in enumerate(text) if c not in "b "]
        return [7] * len(kept), [(i, i + 1) for i in kept]

    subwords = split_into_subwords("a b c", find_words("a b c"), drops_b, UNKNOWN)
    assert subwords.ids.tolist() == [7, UNKNOWN, 7]


def test_words_that_share_a_subword_are_tokenized_apart() -> None:
    subwords = split_into_subwords("東京都", find_words("東京都"), two_characters_a_token, UNKNOWN)
    alone = [two_characters_a_token(c)[0][0] for c in "東京都"]
    assert subwords.ids.tolist() == alone


@given(st.data())
def test_no_short_run_is_lost_between_windows(data: st.DataObject) -> None:
    subwords = subwords_of_lengths(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=30)))
    length = data.draw(st.integers(2, 20))
    overlap = data.draw(st.integers(0, length - 1))
    windows = cut(subwords, length, overlap)
    total = len(subwords)
    assert windows[0].begin == 0
    assert windows[-1].end == total
    assert all(0 < w.end - w.begin <= length for w in windows)
    assert all(a.begin < b.begin <= a.end for a, b in pairwise(windows))
    for start in range(total):
        for end in range(start + 1, min(start + overlap + 1, total) + 1):
            holder = owner(windows, start, end, total)
            assert holder is not None
            assert windows[holder].begin <= start
            assert end <= windows[holder].end


def test_windows_keep_words_whole_where_they_can() -> None:
    windows = cut(subwords_of_lengths([3, 3, 3, 3]), 7, 2)
    assert windows == [(0, 6), (3, 9), (6, 12)]


def test_the_owner_shows_most_context() -> None:
    windows = cut(subwords_of_lengths([1] * 20), 10, 5)
    assert windows == [(0, 10), (5, 15), (10, 20)]
    assert [owner(windows, i, i + 1, 20) for i in range(20)] == [0] * 8 + [1] * 5 + [2] * 7
    assert owner(windows, 0, 11, 20) is None


def test_characters_are_found_again() -> None:
    text = "The Black Sea-coast froze"
    subwords = split_into_subwords(text, find_words(text), two_characters_a_token, UNKNOWN)
    for start, end, exact in [(4, 13, True), (4, 12, False), (5, 13, False), (4, 19, True)]:
        found = locate(subwords, start, end)
        assert found is not None
        first, last, is_exact = found
        words = subwords.words
        covered = (words[subwords.word_of[first]][0], words[subwords.word_of[last]][1])
        assert covered[0] <= start
        assert covered[1] >= end
        assert is_exact == exact == (covered == (start, end))
    assert locate(subwords, 3, 4) is None
