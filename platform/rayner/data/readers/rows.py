"""Documents from rows (JSON objects, Parquet rows) that anyone may have written."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayner.data.json_lines import OF_AN_ARRAY, ONE_A_LINE
from rayner.data.readers.base import Reading, entity_of
from rayner.data.readers.files import not_utf8
from rayner.data.readers.marked_spans import fields_beside
from rayner.data.schema import (
    DOCUMENT_SCHEMA,
    MENTION_FIELDS,
    Document,
    Mention,
    all_contexts,
    document_from_row,
)

_LARGEST = 2**31 - 1
"""Offset that is stored."""
_LARGEST_NUMBER = float(np.finfo(np.float32).max)
_FIELDS = frozenset(DOCUMENT_SCHEMA.names) | {"id"}
_OBJECTS = {
    "mentions": '{"start": 0, "end": 3, "type": "PER"}',
    **dict.fromkeys(("words", "sentences"), '{"start": 0, "end": 3}'),
    "contexts": '{"text": "..."}',
}
"""What each element is of the fields that list objects."""
_BINDER_FIELDS = frozenset(
    {
        *("id", "document_id", "text"),
        *("entity_types", "entity_start_chars", "entity_end_chars", "entity_ids"),
        *("word_start_chars", "word_end_chars"),
    }
)


def add_row(row: Any, where: str, default_id: str, reading: Reading) -> None:
    """Read a row of our schema or of BINDER's; a row that is neither, or the error in its place (`rows_of`),
    becomes a reject.

    Fields that neither knows are counted as ignored: annotations may hide in them.
    """
    if isinstance(row, UnicodeDecodeError):
        reading.reject(where, *not_utf8(row))
        return
    if not isinstance(row, dict):
        reading.reject(where, "not a JSON object", OF_AN_ARRAY if isinstance(row, list) else ONE_A_LINE)
        return
    if not isinstance(row.get("text"), str):
        hint = 'a row needs {"document_id": "...", "text": "..."}'
        if "documents" in row or "passages" in row:
            hint = "it is BioC, of which `rayner corpus convert` makes Parquet"
        elif any(isinstance(row.get(name), list) for name in ("tokens", "words")):
            hint = "words and tags are read from Parquet: `datasets.Dataset.from_json(FILE).to_parquet(OUT)`"
        reading.reject(where, "no field `text`", hint)
        return
    document_id = row.get("document_id")
    if document_id is None:
        document_id = row.get("id")
    if type(document_id) is int:
        document_id = str(document_id)
    if document_id is None:
        document_id = default_id
    if not isinstance(document_id, str):
        reading.reject(where, f"document_id is {document_id!r}", "write it as a string")
        return
    if isinstance(row.get("annotated_types"), str):
        reading.reject(where, "annotated_types is a string", "write a list of types", document_id)
        return
    is_binder = "entity_types" in row
    for name, example in () if is_binder else _OBJECTS.items():
        if row.get(name) is not None and not isinstance(row[name], list):
            what, hint = f"`{name}` is {row[name]!r:.40}, no list", f'write "{name}": [{example}]'
            reading.reject(where, what, hint, document_id)
            return
    hint = "correct the row"
    try:
        build = _binder if is_binder else document_from_row
        row = row if is_binder else row | {"mentions": _with_one_id(row.get("mentions"))}
        document = build({**row, "document_id": document_id})
        fault = fault_of(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        document, fault = None, f"missing field {error}" if isinstance(error, KeyError) else str(error)
        if not is_binder and (found := _no_object(row)):
            fault, hint = found
    if document is None or fault:
        reading.reject(where, f"not a row of the document schema: {fault}", hint, document_id)
    else:
        for name in row.keys() - (_BINDER_FIELDS if is_binder else _FIELDS):
            reading.ignored[f"field {name}"] += 1
        if not is_binder:
            reading.ignored.update(fields_beside(row.get("mentions") or (), MENTION_FIELDS, "mentions"))
        reading.add(document, where)


def _with_one_id(mentions: list[Any] | None) -> list[Any] | None:
    """The mentions; several ids, in a list or as `entity_ids`, are one string, as corpora write them."""
    return mentions and [_joined(one) if isinstance(one, dict) else one for one in mentions]


def _joined(mention: dict[str, Any]) -> dict[str, Any]:
    given = mention.get("entity_id")
    if isinstance(given, list):
        return mention | {"entity_id": _joined_ids(given)}
    if given or "entity_ids" not in mention:
        return mention
    rest = {name: value for name, value in mention.items() if name != "entity_ids"}
    return rest | {"entity_id": _joined_ids(mention["entity_ids"])}


def _joined_ids(ids: Any) -> Any:
    """Ids that are strings or numbers as one string; anything else as it is, and its row is rejected."""
    if not isinstance(ids, list) or not all(one is None or type(one) in (str, int) for one in ids):
        return ids
    return "|".join(dict.fromkeys(str(one) for one in ids if one not in (None, ""))) or None


def _no_object(row: dict[str, Any]) -> tuple[str, str] | None:
    """What a row holds in place of an object, and how to write it."""
    for name, example in _OBJECTS.items():
        for one in row.get(name) or ():
            if not isinstance(one, dict):
                return f"`{name}` holds {one!r:.40}", f"write {example}"
            if not isinstance(head := one.get("head"), dict | None):
                return f"`head` is {head!r:.40}", 'write "head": {"start": 0, "end": 3}'
    return None


def _binder(row: dict[str, Any]) -> Document:
    """A row of the published BINDER data: parallel lists of types, first characters and ends."""
    starts, ends = row["entity_start_chars"], row["entity_end_chars"]
    ids = row.get("entity_ids") or [None] * len(starts)
    _check_parallel(entity_types=row["entity_types"], entity_start_chars=starts, entity_end_chars=ends)
    _check_parallel(entity_types=row["entity_types"], entity_ids=ids)
    mentions = tuple(
        Mention(start, end, type_, None if id_ is None else entity_of(str(id_)))
        for type_, start, end, id_ in zip(row["entity_types"], starts, ends, ids, strict=True)
    )
    words = None
    if row.get("word_start_chars") is not None:
        first, after = row["word_start_chars"], row["word_end_chars"]
        _check_parallel(word_start_chars=first, word_end_chars=after)
        words = tuple(zip(first, after, strict=True))
    return Document(row["document_id"], row["text"], mentions, words)


def _check_parallel(**lists: Any) -> None:
    if len({len(one) for one in lists.values()}) > 1:
        told = ", ".join(f"{len(one)} in `{name}`" for name, one in lists.items())
        raise ValueError(f"lists of different lengths: {told}")


def fault_of(document: Document) -> str:
    """What the schema does not allow: values of other types, spans outside the text."""
    return fault_of_offsets(document) or fault_of_values(document)


def fault_of_offsets(document: Document) -> str:
    """Of `fault_of`, what is about offsets."""
    for mention in document.mentions:
        if type(mention.start) is not int or type(mention.end) is not int:
            return f"mention offsets {mention.start!r} {mention.end!r} are not integers"
        if mention.head is not None and not _is_within(*mention.head, document.text):
            return f"head {list(mention.head)} is not a span of the text"
    for name in ("words", "sentences"):
        for start, end in getattr(document, name) or ():
            if not type(start) is type(end) is int:
                return f"{name} hold [{start!r}, {end!r}), which are not integers"
            if not _is_within(start, end, document.text):
                return f"{name} hold [{start}, {end}), outside the text"
    for context in all_contexts(document):
        if not all(value is None or _is_offset(value) for value in (context.start, context.end)):
            return f"context offsets {context.start!r:.20} {context.end!r:.20} are not offsets in a text"
    return ""


def fault_of_values(document: Document) -> str:
    """Of `fault_of`, what is not about offsets."""
    for mention in document.mentions:
        if not isinstance(mention.type, str):
            return f"mention type {mention.type!r} is not a string"
        for name in ("entity_id", "name", "chain"):
            if not isinstance(getattr(mention, name), str | None):
                return f"{name} {getattr(mention, name)!r} is not a string"
        for name in ("score", "margin", "probability", "uncertainty"):
            if (value := getattr(mention, name)) is not None and not _is_number(value):
                return f"{name} {value!r} is not a number, or no finite one"
        scored = [*mention.types, *((one.entity_id, one.score) for one in mention.candidates)]
        for name, score in scored:
            if not isinstance(name, str) or not _is_number(score):
                return f"name {name!r} with score {score!r} are not a string and a finite number"
        for one in mention.candidates:
            for name in (one.name, one.matched):
                if not isinstance(name, str | None):
                    return f"name {name!r} of the candidate {one.entity_id!r} is not a string"
    for name in ("language", "group"):
        if not isinstance(getattr(document, name), str | None):
            return f"{name} {getattr(document, name)!r} is not a string"
    for context in all_contexts(document):
        if not isinstance(context.text, str) or not (context.score is None or _is_number(context.score)):
            told = f"context {context.text!r} with score {context.score!r}"
            return f"{told} are not a string and a finite number"
    if not all(isinstance(type_, str) for type_ in document.annotated_types or ()):
        return f"annotated_types {list(document.annotated_types or ())} are not strings"
    return ""


def _is_number(value: Any) -> bool:
    """Whether it is a number that JSON knows, too, and that float32 holds: NaN and infinity are none."""
    return isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER


def _is_offset(value: Any) -> bool:
    return type(value) is int and abs(value) <= _LARGEST


def _is_within(start: Any, end: Any, text: str) -> bool:
    return type(start) is type(end) is int and 0 <= start <= end <= len(text)
