"""What GLiNER learns from: words, and mentions by their first and last word.

[{"tokenized_text": ["Ada", "Lovelace", "wrote"], "ner": [[0, 1, "person"]]}]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rayner.data.readers import files
from rayner.data.readers.base import Reading, Sample, Unit, in_order
from rayner.data.readers.json_rows import first_object, read_rows
from rayner.data.readers.typed_rows import RowError, check_words, strings
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention, Span

_FIELDS = {"id", "tokenized_text", "ner"}


def units(paths: Sequence[Path]) -> list[Unit]:
    """One unit a file."""
    return files.each_file("gliner", paths)


def matches(sample: Sample) -> bool:
    """Whether the first object has words and mentions in them."""
    return first_object(sample).keys() >= {"tokenized_text", "ner"}


def read(unit: Unit) -> Reading:
    """The documents of a file; a row that is none is a reject."""
    return read_rows(unit, _FIELDS, _document)


def _document(row: dict[str, Any], default_id: str) -> Document:
    words, given = strings(row, "tokenized_text"), row.get("ner")
    if not words:
        raise RowError("a row without words", "remove it")
    if not isinstance(given, list):
        raise RowError("`ner` is no list", 'write "ner": [[0, 1, "person"]]')
    text, spans, _ = join_words([words])
    found = in_order([_mention(one, spans) for one in given])
    id_ = row.get("id")
    return Document(str(id_) if isinstance(id_, str | int) else default_id, text, found, spans)


def _mention(given: Any, words: Sequence[Span]) -> Mention:
    if not isinstance(given, list) or len(given) != 3 or not isinstance(given[2], str):
        raise RowError(f"{given!r:.40} is no mention", 'write [FIRST_WORD, LAST_WORD, "TYPE"]')
    first, last, type_ = given
    check_words(first, last + 1 if type(last) is int else last, len(words))
    return Mention(words[first][0], words[last][1], type_)
