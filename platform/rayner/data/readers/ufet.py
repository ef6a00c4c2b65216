"""Ultra-fine entity typing: one mention between two contexts a line (Choi et al. 2018).

{"annot_id": "...", "left_context_token": [...], "mention_span": "...", "right_context_token": [...],
 "y_str": ["person", "artist"]}
"""

from __future__ import annotations

from typing import Any

from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.json_rows import has_fields, read_rows
from rayner.data.readers.typed_rows import RowError, strings, typed
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document

_FIELDS = {"annot_id", "left_context_token", "mention_span", "right_context_token", "y_str"}


def matches(sample: Sample) -> bool:
    """Whether the first line is a JSON object with a mention and its types."""
    return has_fields(sample, "mention_span", "y_str")


def read(unit: FileUnit) -> Reading:
    """The documents of a file, one a line; a line that is no such row is a reject."""
    return read_rows(unit, _FIELDS, _document)


def _document(row: dict[str, Any], default_id: str) -> Document:
    left, right = strings(row, "left_context_token"), strings(row, "right_context_token")
    mention = row.get("mention_span")
    if not isinstance(mention, str) or not mention.split():
        raise RowError("`mention_span` is no text", 'write "mention_span": "the words of the mention"')
    own = mention.split()
    text, words, _ = join_words([[*left, *own, *right]])
    names = strings(row, "y_str")
    found = typed(words, len(left), len(left) + len(own), names, head=None)
    return Document(str(row.get("annot_id") or default_id), text, (found,), words)
