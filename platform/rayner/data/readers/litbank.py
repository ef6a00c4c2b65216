"""LitBank's entities: a word and several layers of IOB2 tags a line, one book a file.

Layers hold nested mentions, the innermost or shortest not always first (Bamman, Popat and Shen 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rayner.data.readers import files, tag_schemes
from rayner.data.readers.base import FileUnit, Reading, Sample, in_order
from rayner.data.readers.columns import DOCUMENT_MARK
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention

MIN_LAYERS = 2
_Rows = list[list[str]]


def matches(sample: Sample) -> bool:
    """Whether each row is a word and, between tabs, at least two tags and nothing else.

    Columns of chunks, or of what a model found beside what is right, are no layers.
    """
    rows = [_fields(line) for line in sample.lines if line.strip()]
    if not rows or not all(len(row) > MIN_LAYERS and all(map(tag_schemes.is_tag, row[1:])) for row in rows):
        return False
    layers = [
        [row[layer] if layer < len(row) else "O" for row in rows] for layer in range(1, max(map(len, rows)))
    ]
    spans = [span for layer in layers for span in tag_schemes.spans_of(layer, "IOB2", Counter())]
    return len(set(spans)) == len(spans) and not any(type_ in tag_schemes.CHUNKS for _, _, type_ in spans)


def read(unit: FileUnit) -> Reading:
    """The document of a file, or those that begin at `-DOCSTART-`, named as by `columns.read`; a file with a
    broken line is rejected, as its words would be too few."""
    reading = Reading()
    (path,) = unit.paths
    lines = files.split_lines(files.read_text(path, reading))
    documents: list[tuple[str, list[_Rows]]] = [(unit.name, [])]
    sentence: _Rows = []
    for number, line in enumerate(lines, 1):
        row = _fields(line)
        if not line.strip():
            sentence = []
        elif _is_mark(row, is_inside=bool(sentence)):
            documents.append((f"{unit.name}:{number}", []))
            sentence = []
        elif len(row) < 2 or not row[0] or not all(map(tag_schemes.is_tag, row[1:])):
            what = "no word with tags between tabs"
            reading.reject(f"{path}:{number}", what, "correct the line", unit.name)
            return reading
        else:
            if not sentence:
                documents[-1][1].append(sentence)
            sentence.append(row)
    for document_id, sentences in documents:
        if sentences or len(documents) == 1:
            reading.add(_document(document_id, sentences, reading), path)
    return reading


def _is_mark(row: Sequence[str], *, is_inside: bool) -> bool:
    """Whether a row begins a document, and is no word of that form between others."""
    return row[0].startswith(DOCUMENT_MARK) and not is_inside and all(tag == "O" for tag in row[1:])


def _document(document_id: str, sentences: Sequence[_Rows], reading: Reading) -> Document:
    text, words, spans = join_words([[row[0] for row in sentence] for sentence in sentences])
    mentions: list[Mention] = []
    before = 0
    for sentence in sentences:
        for layer in range(1, max(map(len, sentence))):
            column = [row[layer] if layer < len(row) else "O" for row in sentence]
            for first, after, type_ in tag_schemes.spans_of(column, "IOB2", reading.repaired):
                mentions.append(Mention(words[before + first][0], words[before + after - 1][1], type_))
        before += len(sentence)
    return Document(document_id, text, in_order(mentions), words, spans)


def _fields(line: str) -> list[str]:
    return line.rstrip("\t ").split("\t")
