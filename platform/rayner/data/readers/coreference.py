"""Coreference in columns: the brackets of CoNLL-2012 `(12|(3)`, `12)` and of GUM `(person-4-Name(place-5)`.

The brackets are in the last column. A CoNLL-2012 mention has a chain and the type "mention"; its named
entities, in a column of their own, are mentions with their types and without a chain. A GUM mention has a
chain, a type, and the article that it is linked to as its entity. A document with parts is one document a
part, and the parts are a group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample, in_order
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import UNTYPED, Document, Mention

_BEGIN = re.compile(
    r"#\s*(?:begin document\s*(?:\((?P<id>.*)\); part (?P<part>\d+)|(?P<plain>.*))"
    r"|newdoc\b(?:\s+id\s*=)?(?P<new>.*))"
)
_END = re.compile(r"#\s*end document\b")
_BRACKET = re.compile(
    r"(?P<open>\()?(?:(?P<type>[^-()|\d]++)-)?(?P<chain>\d++)(?:-(?P<entity>[^()|]++))?(?P<close>\))?"
)
_BRACKETS = re.compile(rf"(?:{re.sub(r'[?]P<[a-z]+>', '?:', _BRACKET.pattern)}|\|)+")
_NONE = ("", "_", "-", "*")
_NAMED, _FEWEST_FIELDS = 10, 12
"""The column of named entities, in rows of so many fields and more."""
_ENTITY = re.compile(r"(?:\((?P<type>[^()*]+))?\*?(?P<close>\))?")

# (type, chain, entity id, first word, word after the last)
_Found = tuple[str, str | None, str | None, int, int]


@dataclass(slots=True)
class _Words:
    """The words of a document as they come, and the brackets that are open.

    `mark`: by which of the two marks it began, `begin` (document) or `new` (doc), and with a name or not.
    """

    document_id: str
    group: str | None
    line: int
    mark: str = ""
    is_named: bool = False
    sentences: list[list[str]] = field(default_factory=lambda: [[]])
    opened: dict[tuple[str, str], list[tuple[int, str | None, int]]] = field(default_factory=dict)
    entity: tuple[str, int, int] | None = None
    """The type, word and line of a named entity that is open."""
    found: list[_Found] = field(default_factory=list)
    count: int = 0


def matches(sample: Sample) -> bool:
    """Whether each row of at least three fields ends in brackets or in none, and one in brackets.

    Without a mark it takes tabs, too: a text may end in a year in brackets.
    """
    if not any("\t" in line or _BEGIN.match(line) for line in sample.lines):
        return False
    rows = [_fields(line) for line in sample.lines if line.strip() and not _is_mark(line)]
    last = [row[-1] for row in rows if len(row) > 2]
    brackets = [value for value in last if value not in _NONE]
    return (
        len(last) == len(rows)
        and any("(" in value for value in brackets)
        and all(_BRACKETS.fullmatch(value) for value in brackets)
    )


def read(unit: FileUnit) -> Reading:
    """The documents of a file."""
    reading = Reading()
    (path,) = unit.paths
    document: _Words | None = None
    default_id = unit.name
    for number, line in enumerate(files.split_lines(files.read_text(path, reading)), 1):
        begin = _BEGIN.match(line)
        if begin is not None:
            begun = _begin(begin, number, f"{unit.name}:{number}")
            if document is None or document.count or document.mark in ("", begun.mark):
                _finish(document, path, reading)
                document = begun
            elif not document.is_named or (begun.is_named and begun.mark == "begin"):
                # A document may have both marks.
                document = begun
        elif _END.match(line):
            _finish(document, path, reading)
            document, default_id = None, f"{unit.name}:{number}"
        elif _is_mark(line):
            continue
        elif not line.strip():
            if document is not None and document.sentences[-1]:
                document.sentences.append([])
        else:
            document = document or _Words(default_id, None, number)
            _row(document, _fields(line), f"{path}:{number}", number, reading)
    _finish(document, path, reading)
    return reading


def _begin(begin: re.Match[str], line: int, default_id: str) -> _Words:
    if begin["id"] is None:
        mark = "begin" if begin["new"] is None else "new"
        id_ = (begin["plain"] or begin["new"] or "").strip()
        return _Words(id_ or default_id, None, line, mark, bool(id_))
    part = begin["part"].lstrip("0")
    return _Words(f"{begin['id']}:{part}" if part else begin["id"], begin["id"], line, "begin", True)


def _is_mark(line: str) -> bool:
    return line.startswith("#") and "\t" not in line


def _fields(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _row(document: _Words, row: Sequence[str], where: str, line: int, reading: Reading) -> None:
    """Take a row: the word is the second field of three, the fourth of more (CoNLL-2012)."""
    if len(row) < 3:
        reading.reject(where, "fewer than three fields", "write index, word, brackets", document.document_id)
        return
    document.sentences[-1].append(row[1] if len(row) == 3 else row[3])
    place, document.count = document.count, document.count + 1
    if len(row) >= _FEWEST_FIELDS:
        _named_entity(document, row[_NAMED], place, where, line, reading)
    if row[-1] in _NONE:
        return
    if _BRACKETS.fullmatch(row[-1]) is None or not set(row[-1]) & set("()"):
        reading.reject(where, f"{row[-1]!r} are no brackets", "write (12, 12) or (12)", document.document_id)
        return
    for bracket in _BRACKET.finditer(row[-1]):
        type_, chain = bracket["type"] or UNTYPED, bracket["chain"]
        stack = document.opened.setdefault((type_, chain), [])
        if bracket["open"]:
            stack.append((place, bracket["entity"], line))
        if bracket["close"]:
            if stack:
                first, entity, _ = stack.pop()
                document.found.append((type_, chain, entity, first, place + 1))
            else:
                what = f"a bracket closes chain {chain}, which is not open"
                reading.reject(where, what, "open it before", document.document_id)


def _named_entity(document: _Words, value: str, place: int, where: str, line: int, reading: Reading) -> None:
    bracket = _ENTITY.fullmatch(value)
    if bracket is None:
        return
    if bracket["type"]:
        document.entity = bracket["type"], place, line
    if bracket["close"]:
        if document.entity is None:
            what = "a bracket closes a named entity, and none is open"
            reading.reject(where, what, "open it before", document.document_id)
        else:
            type_, first, _ = document.entity
            document.found.append((type_, None, None, first, place + 1))
            document.entity = None


def _finish(document: _Words | None, path: str, reading: Reading) -> None:
    if document is None:
        return
    for (_, chain), stack in document.opened.items():
        for _, _, line in stack:
            what = f"a bracket opens chain {chain} and never closes"
            reading.reject(f"{path}:{line}", what, "close it", document.document_id)
    if document.entity is not None:
        type_, _, line = document.entity
        what = f"a bracket opens a named entity ({type_}) and never closes"
        reading.reject(f"{path}:{line}", what, "close it", document.document_id)
    sentences = [sentence for sentence in document.sentences if sentence]
    if not sentences:
        reading.reject(
            f"{path}:{document.line}", "a document without words", "remove it", document.document_id
        )
        return
    text, words, spans = join_words(sentences)
    mentions = [
        Mention(words[first][0], words[after - 1][1], type_, entity, chain)
        for type_, chain, entity, first, after in document.found
    ]
    reading.add(
        Document(
            document.document_id,
            text,
            in_order(mentions),
            words,
            spans if len(sentences) > 1 else None,
            group=document.group,
        ),
        f"{path}:{document.line}",
    )
