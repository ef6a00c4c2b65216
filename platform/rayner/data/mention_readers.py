"""Formats of mentions without their texts, and the mentions of corpora."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from rayner.counted import counted
from rayner.data.abbreviations import strings_of_mentions
from rayner.data.json_lines import has_data, json_values, rows_under_data
from rayner.data.mention_strings import MentionReading, ids_of
from rayner.data.readers import files, read_corpus
from rayner.data.readers.base import NO_ENTITY
from rayner.data.readers.detect import detect
from rayner.data.sentences import sentences_of_mentions
from rayner.errors import CorpusError
from rayner.files.fetching import local

_ID = r"(?:[A-Za-z]+:)?[\w.-]*\d[\w.-]*"
_TO_WRITE = 'write {"mention": "...", "entity_id": "..."} on each line, or DOCUMENT<TAB>MENTION<TAB>ID'
_OF_ANOTHER_TYPE, _WITHOUT_AN_ID = "mention of another type", "mention without an entity id"
_NOT_TAKEN = {_OF_ANOTHER_TYPE, _WITHOUT_AN_ID}
_PAIR = re.compile(rf"[^\t]*\t[^\t]+\t(?:-1|-|{_ID}(?:[|+]{_ID})*)(?:\t.*)?")


def read_mention_strings(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    format: str = "auto",
    types: Sequence[str] = (),
    abbreviations: bool = False,
    sentences: bool = False,
) -> MentionReading:
    """The mentions of files, in their order, repeats included.

    Formats: `mentions`, JSON lines `{"mention", "entity_id"}` (null for NIL, a list for several that are
    right); `esappmod`; `pairs`, lines `DOCUMENT<TAB>MENTION<TAB>ID` with several ids parted by `|` and `+`;
    and those of corpora, whose mentions without an id are ignored and counted.

    Args:
        types: of a corpus, only mentions of these types; empty is all.
        abbreviations: whether mentions of a corpus have the long forms of the short forms that their document
            explains.
        sentences: whether mentions of a corpus have the sentences that they are in.

    Raises:
        CorpusError: no such file, no known format, or no mention in any of them.
    """
    given = [local(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]
    reading = MentionReading()
    for path in given:
        if not path.exists():
            raise CorpusError(str(path), "no such file", "name a file of mentions")
        name = (detect_reader(path) or detect(path, _to_write(path))) if format == "auto" else format
        if name in READERS:
            READERS[name](path, reading)
        else:
            read_documents(path, name, types, reading, abbreviations, sentences)
    if not reading.mentions:
        if reading.rejects:
            first = reading.rejects[0]
            raise CorpusError(first.where, first.what, first.hint)
        what = f"no mention{f' of {list(types)}' if types else ''} with an entity id in it"
        # Of a corpus there are some to choose from; a table of mentions with a faulty line is a text.
        is_corpus = bool(_NOT_TAKEN & reading.ignored.keys())
        hint = "name other files or types" if is_corpus else _to_write(given[0])
        raise CorpusError(", ".join(map(str, given)), what, hint)
    return reading


def detect_reader(path: Path) -> str | None:
    """The format of a file of mentions; None for what may be a corpus."""
    if path.is_dir() or files.suffix(path) == ".ann":
        return None
    lines = [line for line in files.sample(path).lines if line.strip()]
    start = "\n".join(lines)
    if start.lstrip().startswith("{"):
        if has_data(start) and '"entity_id"' in start and '"mention' in start:
            return "esappmod"
        return "mentions" if _is_mention(lines[0]) else None
    return "pairs" if lines and all(_PAIR.fullmatch(line) for line in lines) else None


def _to_write(path: Path) -> str:
    """What to do about a file in which there is no mention with an id."""
    lines = [line.split("\t") for line in files.sample(path).lines if line.strip()] if path.is_file() else []
    # One that is no corpus, of ids without a digit: a header or a corpus of tags has three columns too.
    has_three = bool(lines) and all(len(cells) == 3 and all(cells[1:]) for cells in lines)
    return f"{_TO_WRITE}{'; of ids without a digit, name the format: pairs' if has_three else ''}"


def read_rows(path: Path, reading: MentionReading) -> None:
    """JSON lines `{"mention", "entity_id"}`; null is NIL, a list names several entities that are right.

    In place of `entity_id`, `entity_ids` is one string of several ids as corpora write them, parted by `|`
    and `+`. `type` may stand beside either.
    """
    for _, where, row in json_values(enumerate(_lines(path, reading), 1), path, reading.reject):
        if not isinstance(row, dict) or "mention" not in row:
            reading.reject(where, "no `mention`", 'write {"mention": "...", "entity_id": "..."}')
        elif row.get("entity_id") in (None, "") and isinstance(ids := row.get("entity_ids"), str):
            reading.add(row["mention"], ids, where, _type_of(row))
        elif row.get("entity_id") is None and row.get("entity_ids"):
            reading.reject(where, "`entity_ids` is no string", "write `D1|D2`, or a list as `entity_id`")
        elif "entity_id" not in row:
            reading.reject(where, "no `entity_id`", "write null for a mention of no entity")
        else:
            _add(row, row["entity_id"], where, reading)


def read_esappmod(path: Path, reading: MentionReading) -> None:
    """JSON of papers/002: `{"data": {"0": {"mentions": [...], "entity_id": 1}}}`; id 0 is NIL."""
    text = files.without_mark(files.decode(files.read_bytes(path), path), reading.repaired)
    rows = rows_under_data(text, path, CorpusError)
    for key, row in rows.items():
        where = f"{path}:data.{key}"
        if not isinstance(row, dict) or "entity_id" not in row:
            reading.reject(where, "no `entity_id`", "give it the number of its entity")
            continue
        mentions = row.get("mentions", row.get("mention"))
        for mention in mentions if isinstance(mentions, list) else [mentions]:
            _add({"mention": mention}, row["entity_id"] or None, where, reading)


def read_pairs(path: Path, reading: MentionReading) -> None:
    """Lines `DOCUMENT<TAB>MENTION<TAB>ID`; further columns are counted, not read."""
    for number, line in enumerate(_lines(path, reading), 1):
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) < 3:
            what = counted(len(cells), "column")
            reading.reject(f"{path}:{number}", what, "write DOCUMENT<TAB>MENTION<TAB>ID")
            continue
        if len(cells) > 3:
            reading.ignored["further column"] += 1
        reading.add(cells[1], cells[2], f"{path}:{number}")


def read_documents(
    path: Path,
    format: str,
    types: Sequence[str],
    reading: MentionReading,
    abbreviations: bool = False,
    sentences: bool = False,
) -> None:
    """The mentions of a corpus that have an entity id, as `strings_of_mentions` calls them."""
    corpus = read_corpus(path, format)
    reading.rejects += corpus.rejects
    reading.repaired += corpus.repaired
    reading.ignored += corpus.ignored
    for document, where in zip(corpus.documents, corpus.places, strict=True):
        strings = strings_of_mentions(document, abbreviations)
        around = sentences_of_mentions(document) if sentences else [None] * len(strings)
        for mention, text, sentence in zip(document.mentions, strings, around, strict=True):
            if types and mention.type not in types:
                reading.ignored[_OF_ANOTHER_TYPE] += 1
            elif mention.entity_id is None or not ids_of(mention.entity_id):
                reading.ignored[_WITHOUT_AN_ID] += 1
            else:
                reading.add(text, mention.entity_id, where, mention.type, sentence)


READERS: Mapping[str, Callable[[Path, MentionReading], None]] = {
    "mentions": read_rows,
    "esappmod": read_esappmod,
    "pairs": read_pairs,
}


def _is_mention(line: str) -> bool:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "mention" in row and "text" not in row


def _lines(path: Path, reading: MentionReading) -> list[str]:
    text = files.decode(files.read_bytes(path), path)
    return files.split_lines(files.without_mark(text, reading.repaired))


def _add(row: Mapping[str, Any], entity_id: Any, where: str, reading: MentionReading) -> None:
    ids = entity_id if isinstance(entity_id, list) else [] if entity_id is None else [entity_id]
    if not all(type(id_) in (int, str) and str(id_).strip() for id_ in ids):
        reading.reject(where, f"the id {entity_id!r} is no string", "write a string, or null for no entity")
        return
    written = (str(id_).strip() for id_ in ids)
    reading.add(row["mention"], [id_ for id_ in written if id_ not in NO_ENTITY], where, _type_of(row))


def _type_of(row: Mapping[str, Any]) -> str | None:
    kind = row.get("type")
    return kind if isinstance(kind, str) else None
