"""What readers of rows of words share, in which mentions may have any number of fine types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rayner.data.fine_types import as_types
from rayner.data.readers.base import is_encodable
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import UNTYPED, Mention, Span


class RowError(ValueError):
    """What is wrong with a row, as a reject says it, and how to correct it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def strings(row: dict[str, Any], field: str) -> list[str]:
    """A field that is a list of strings, none of them blank.

    Raises:
        RowError: it is something else.
    """
    value = row.get(field)
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise RowError(f"`{field}` is no list of strings", f'write "{field}": ["...", ...]')
    if not all(v.strip() and is_encodable(v) for v in value):
        raise RowError(f"`{field}` holds a blank string or half a surrogate pair", "leave it out")
    return value


def sentence_of(
    row: dict[str, Any], tokens: str, mentions: str, example: str
) -> tuple[str, tuple[Span, ...], list[Any]]:
    """The text of a row of words, the words in it, and what the row gives as its mentions.

    Args:
        tokens, mentions: the fields.
        example: a mention, for whoever has to correct the row.

    Raises:
        RowError: the fields hold something else.
    """
    words, given = strings(row, tokens), row.get(mentions)
    if not words:
        raise RowError("a row without words", "remove it")
    if not isinstance(given, list):
        raise RowError(f"`{mentions}` is no list", f'write "{mentions}": [{example}]')
    text, spans, _ = join_words([words])
    return text, spans, given


def typed(words: Sequence[Span], first: int, after: int, names: Sequence[str], head: int | None) -> Mention:
    """The mention of words `first` to `after`, with its gold types; `head` is the number of its head word."""
    return Mention(
        words[first][0],
        words[after - 1][1],
        UNTYPED,
        head=None if head is None else words[head],
        types=as_types(names),
    )


def check_words(first: Any, end: Any, words: int, *, end_is_last: bool = False) -> None:
    """Raise RowError unless `first` and `end` are a stretch of so many words.

    Args:
        end_is_last: `end` is the last word, not the one after it.
    """
    if type(first) is not int or type(end) is not int or not 0 <= first < end + end_is_last <= words:
        what = f"a mention of the words {first!r:.20} to {end!r:.20} of {words}"
        behind = "the last word" if end_is_last else "the word after the last"
        raise RowError(what, f"count words from 0; the end is {behind}")
