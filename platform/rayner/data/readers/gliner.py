"""What GLiNER learns from: words, and mentions by their first and last word.

[{"tokenized_text": ["Ada", "Lovelace", "wrote"], "ner": [[0, 1, "person"]]}]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rayner.data.readers.base import FileUnit, Reading, Sample, in_order
from rayner.data.readers.json_rows import ID, first_object, id_of, read_rows
from rayner.data.readers.typed_rows import RowError, check_words, sentence_of
from rayner.data.schema import Document, Mention, Span

_FIELDS = {*ID, "tokenized_text", "ner"}


def matches(sample: Sample) -> bool:
    """Whether the first object has words and mentions in them."""
    return first_object(sample).keys() >= {"tokenized_text", "ner"}


def read(unit: FileUnit) -> Reading:
    """The documents of a file; a row that is none is a reject."""
    return read_rows(unit, _FIELDS, _document)


def _document(row: dict[str, Any], default_id: str) -> Document:
    text, words, given = sentence_of(row, "tokenized_text", "ner", '[0, 1, "person"]')
    found = in_order([_mention(one, words) for one in given])
    return Document(id_of(row, default_id), text, found, words)


def _mention(given: Any, words: Sequence[Span]) -> Mention:
    if not isinstance(given, list) or len(given) != 3 or not isinstance(given[2], str):
        raise RowError(f"{given!r:.40} is no mention", 'write [FIRST_WORD, LAST_WORD, "TYPE"]')
    first, last, type_ = given
    check_words(first, last, len(words), end_is_last=True)
    return Mention(words[first][0], words[last][1], type_)
