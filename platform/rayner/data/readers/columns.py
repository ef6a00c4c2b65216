"""Columns: a word and its tag a line (CoNLL-2002/2003, IOB1, IOB2, BIOES), sentences parted by blank lines.

The tags stand in the last column, or in the first where only that one holds tags. Documents begin at
`-DOCSTART-`, `# begin document ID`, `#doc ID`, `# newdoc id = ID` or `# id ID`. A file without such marks
holds one document a sentence, named `NAME:LINE`, unless it has no blank line or is one of many small files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rayner.data.readers import files, tags
from rayner.data.readers.base import Reading, Sample, Unit
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention

MANY_FILES = 20
SMALL_BYTES = 200_000

_MARK = re.compile(
    r"-DOCSTART-(?:[^(]*\((?P<bracketed>.*)\))?|"
    r"#\s*(?:begin document|newdoc id|newdoc|doc id|doc|document|id)\b[\s:=]*(?P<named>.*)"
)
_END = re.compile(r"#\s*end document")


@dataclass(slots=True)
class _Sentence:
    line: int
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Block:
    """The sentences under one document mark (or of a file without marks), and the lines that are no rows."""

    line: int
    document_id: str | None
    sentences: list[_Sentence] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)


def units(paths: Sequence[Path]) -> list[Unit]:
    """One unit a file; many small files in one folder are a document each."""
    folders: dict[Path, list[Path]] = {}
    for path in paths:
        folders.setdefault(path.parent, []).append(path)
    whole = {
        folder
        for folder, inside in folders.items()
        if len(inside) >= MANY_FILES and max(p.stat().st_size for p in inside) <= SMALL_BYTES
    }
    found = files.each_file("columns", paths)
    return [Unit(u.format, u.paths, u.name, p.parent in whole) for u, p in zip(found, paths, strict=True)]


def matches(sample: Sample) -> bool:
    """Whether every row has at least two fields and a tag in the last or the first."""
    rows = [fields_of(line) for line in sample.lines if line.strip() and not _MARK.match(line)]
    rows = [row for row in rows if not row[0].startswith("#") or tags.is_tag(row[-1])]
    if not rows:
        return False
    good = [len(row) > 1 and (tags.is_tag(row[-1]) or tags.is_tag(row[0])) for row in rows]
    return sum(good) >= 0.9 * len(rows)


def fields_of(line: str) -> list[str]:
    """The fields of a row, between tabs where it has one, otherwise between spaces; less empty last ones."""
    if "\t" in line:
        return line.rstrip("\t ").split("\t")
    return [part for part in line.split(" ") if part] or [""]


def read(unit: Unit) -> Reading:
    """The documents of a column file."""
    reading = Reading()
    (path,) = unit.paths
    lines = files.split_lines(files.read_text(path, reading))
    blocks = list(_blocks(lines, _tag_column(lines), reading))
    scheme = tags.scheme_of(s.tags for b in blocks for s in b.sentences)
    has_breaks = any(len(block.sentences) > 1 for block in blocks)
    if len(blocks) == 1 and has_breaks and not unit.whole and blocks[0].line == 0:
        blocks = _one_a_sentence(blocks[0])
    for block in blocks:
        name = f"{unit.name}:{block.line}" if block.line else unit.name
        where = f"{path}:{block.line or 1}"
        document_id = block.document_id or name
        if block.bad:
            more = f" and {len(block.bad) - 1} more lines" if len(block.bad) > 1 else ""
            what = f"no word with a tag (O, B-TYPE, I-TYPE, ...) on this line{more}"
            reading.reject(f"{path}:{block.bad[0]}", what, "give each word a tag", document_id)
        elif block.sentences:
            reading.add(_document(block, document_id, scheme, has_breaks, reading), where)
    return reading


def _tag_column(lines: Sequence[str]) -> int:
    rows = [fields_of(line) for line in lines[:1000] if line.strip() and not line.startswith(("#", "-DOC"))]
    last = sum(len(row) > 1 and tags.is_tag(row[-1]) for row in rows)
    first = sum(len(row) > 1 and tags.is_tag(row[0]) for row in rows)
    return 0 if first > last else -1


def _blocks(lines: Sequence[str], tag_column: int, reading: Reading) -> Iterator[_Block]:
    block = _Block(0, None)
    sentence: _Sentence | None = None
    for number, line in enumerate(lines, 1):
        row = fields_of(line)
        if not line.strip(" \t"):
            sentence = None
            continue
        is_row = len(row) > 1 and tags.is_tag(row[tag_column])
        mark = (
            _MARK.match(line) if line[0] in "#-" and (not is_row or line.startswith("-DOCSTART-")) else None
        )
        if mark is not None:
            if block.sentences or block.bad:
                yield block
            block = _Block(number, (mark["bracketed"] or mark["named"] or "").split("\t")[0].strip() or None)
            sentence = None
        elif is_row and not row[1 + tag_column]:
            reading.mended["tag without a word: left out"] += 1
        elif is_row:
            if sentence is None:
                sentence = _Sentence(number)
                block.sentences.append(sentence)
            sentence.words.append(row[1 + tag_column])
            sentence.tags.append(row[tag_column])
        elif _END.match(line):
            sentence = None
        elif line.startswith("#") and sentence is None:
            reading.ignored["comment"] += 1
        else:
            if sentence is None:
                sentence = _Sentence(number)
                block.sentences.append(sentence)
            block.bad.append(number)
    if block.sentences or block.bad:
        yield block


def _one_a_sentence(block: _Block) -> list[_Block]:
    """The sentences of a block as blocks of their own; a bad line belongs to the sentence around it."""
    starts = [sentence.line for sentence in block.sentences]
    ends = [*starts[1:], float("inf")]
    return [
        _Block(sentence.line, None, [sentence], [line for line in block.bad if sentence.line <= line < end])
        for sentence, end in zip(block.sentences, ends, strict=True)
    ]


def _document(block: _Block, document_id: str, scheme: str, has_breaks: bool, reading: Reading) -> Document:
    text, words, sentences = join_words([sentence.words for sentence in block.sentences])
    mentions: list[Mention] = []
    before = 0
    for sentence in block.sentences:
        for first, after, type_ in tags.spans_of(sentence.tags, scheme, reading.mended):
            mentions.append(Mention(words[before + first][0], words[before + after - 1][1], type_))
        before += len(sentence.words)
    return Document(document_id, text, tuple(mentions), words, sentences if has_breaks else None)
