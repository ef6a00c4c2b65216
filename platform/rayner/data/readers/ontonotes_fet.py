"""Fine types of OntoNotes: a mention in a sentence a line, between tabs (Gillick et al. 2014, in the form of
Shimaoka et al. 2017).

    0<TAB>2<TAB>Ada Lovelace ran .<TAB>/person /person/artist<TAB>HEAD|Lovelace NON_HEAD|Ada
"""

from __future__ import annotations

from collections.abc import Sequence

from rayner.counted import counted
from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.typed_rows import RowError, check_words, typed
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document

_HEAD = "HEAD|"
_DIGITS = 9


def matches(sample: Sample) -> bool:
    """Whether at least half of the rows are two numbers, words and types that begin with a slash, between
    tabs: where one is wrong, it and not the file is a reject."""
    rows = [line.split("\t") for line in sample.lines if line.strip()]
    return bool(rows) and 2 * sum(map(_is_row, rows)) >= len(rows)


def _is_row(row: Sequence[str]) -> bool:
    return (
        len(row) in (4, 5)
        and _number(row[0]) is not None
        and _number(row[1]) is not None
        and all(name.startswith("/") for name in row[3].split())
    )


def read(unit: FileUnit) -> Reading:
    """The documents of a file, one a line, named `NAME:LINE`; a line that is no such row is a reject."""
    reading = Reading()
    (path,) = unit.paths
    for number, line in enumerate(files.split_lines(files.read_text(path, reading)), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            reading.add(_document(line.split("\t"), f"{unit.name}:{number}"), where)
        except RowError as error:
            reading.reject(where, error.what, error.hint)
    return reading


def _document(row: Sequence[str], document_id: str) -> Document:
    if len(row) not in (4, 5):
        what = f"{counted(len(row), 'field')} between tabs"
        raise RowError(what, "write start, end, words, types and features")
    first, after, tokens = _number(row[0]), _number(row[1]), row[2].split()
    if first is None or after is None:
        raise RowError(f"{row[0]!r:.20} and {row[1]!r:.20} are no numbers of words", "write 0<TAB>2<TAB>...")
    check_words(first, after, len(tokens))
    text, words, _ = join_words([tokens])
    head = _head(row[4] if len(row) == 5 else "", tokens[first:after])
    found = typed(words, first, after, row[3].split(), None if head is None else first + head)
    return Document(document_id, text, (found,), words)


def _head(features: str, mention: Sequence[str]) -> int | None:
    """The place of the head word that the features name, its last if it is there twice."""
    word = next((f.removeprefix(_HEAD) for f in features.split() if f.startswith(_HEAD)), None)
    places = [place for place, own in enumerate(mention) if own == word]
    return places[-1] if places else None


def _number(field: str) -> int | None:
    return int(field) if field.isascii() and field.isdigit() and len(field) <= _DIGITS else None
