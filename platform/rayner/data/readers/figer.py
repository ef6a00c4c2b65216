"""FIGER and BBN: a sentence and its mentions a line (Ling and Weld 2012, in the form of Ren et al. 2016).

{"tokens": ["Ada", "ran", "."], "mentions": [{"start": 0, "end": 1, "labels": ["/person"]}],
 "fileid": "...", "senid": 0}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rayner.data.readers.base import FileUnit, Reading, Sample, in_order
from rayner.data.readers.json_rows import has_fields, read_rows
from rayner.data.readers.typed_rows import RowError, check_words, sentence_of, strings, typed
from rayner.data.schema import Document, Mention, Span

_FIELDS = {"tokens", "mentions", "fileid", "senid"}


def matches(sample: Sample) -> bool:
    """Whether the first line is a JSON object with words and mentions, and no text."""
    return has_fields(sample, "tokens", "mentions") and not has_fields(sample, "text")


def read(unit: FileUnit) -> Reading:
    """The documents of a file, one a line; a line that is no such row is a reject."""
    return read_rows(unit, _FIELDS, _document)


def _document(row: dict[str, Any], default_id: str) -> Document:
    text, words, mentions = sentence_of(row, "tokens", "mentions", '{"start": 0, "end": 1, "labels": []}')
    found = in_order([_mention(mention, words) for mention in mentions])
    given = row.get("fileid")
    id_ = f"{given}:{row.get('senid', '')}".rstrip(":") if given else default_id
    return Document(id_, text, found, words)


def _mention(given: Any, words: Sequence[Span]) -> Mention:
    if not isinstance(given, dict):
        raise RowError(
            f"the mention {given!r:.40} is no object", 'write {"start": 0, "end": 1, "labels": []}'
        )
    first, after = given.get("start"), given.get("end")
    check_words(first, after, len(words))
    return typed(words, first, after, strings(given, "labels"), head=None)  # pyright: ignore
