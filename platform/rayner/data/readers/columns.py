"""Columns: a word and its tag a line (CoNLL-2002/2003, IOB1, IOB2, BIOES), sentences parted by blank lines.

The tags are in the last column, or in the first of two where only that one holds tags. Where the first column
numbers the words of each sentence, the word is in the second and the tags after it, in one column (Universal
NER) or, for nested mentions, in several (GermEval 2014).

Documents begin at `-DOCSTART-`, `# begin document ID`, `#doc ID`, `# newdoc id = ID` or `# id ID`. A file
without such marks holds one document a sentence, named `NAME:LINE`, unless it has no blank line or is one of
many small files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rayner.counted import counted
from rayner.data.readers import files, tag_schemes
from rayner.data.readers.base import FileUnit, Reading, Sample, in_order
from rayner.data.readers.wordtext import join_words
from rayner.data.schema import Document, Mention

MANY_FILES = 20
SMALL_BYTES = 200_000
LOOKED_AT = 1000
"""How many lines tell the columns."""

DOCUMENT_MARK = "-DOCSTART-"
_SUFFIXES = {".conll", ".iob", ".iob2", ".bio"}
_MARK = re.compile(
    r"-DOCSTART-(?:[^(]*\((?P<bracketed>.*)\))?|"
    r"#\s*(?:begin document|newdoc id|newdoc|document_id|doc_id|doc id|doc|document|id)\b[\s:=]*(?P<named>.*)"
)
_END = re.compile(r"#\s*end document")
_OF_SEVERAL = re.compile(r"\d+[-.]\d+")
"""The number of several words that are written as one, and of a word that is not written, in CoNLL-U."""
_ROWS_OF_TWO, _ROWS_OF_MORE = 2, 4
"""How many rows between spaces are no text by chance."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*:")
_WORDS_OF_A_LANGUAGE = 3


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of the words, and of the tags; of several layers of tags where mentions nest."""

    word: int
    tags: tuple[int, ...]
    is_numbered: bool = False

    def holds(self, row: Sequence[str]) -> bool:
        """Whether the row has a word and tags."""
        width = len(row)
        return width > max(1, self.word, *self.tags) and all(
            tag_schemes.is_tag(row[place]) for place in self.tags
        )


@dataclass(slots=True)
class _Sentence:
    line: int
    words: list[str] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    """Of each layer, those of the words."""


@dataclass(slots=True)
class _Block:
    """The sentences under one document mark (or of a file without marks), and the lines that are no rows."""

    line: int
    document_id: str | None
    sentences: list[_Sentence] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)


def units(paths: Sequence[Path]) -> list[FileUnit]:
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
    return [FileUnit(u.format, u.paths, u.name, p.parent in whole) for u, p in zip(found, paths, strict=True)]


def matches(sample: Sample) -> bool:
    """Whether every row has at least two fields and a tag in the last, or the first of two.

    Between spaces it takes several rows of two fields, or more of another width, or a name or mark of such
    files: a text may begin with `B-cell`, and its lines end in `O` or `U-Bahn`.
    """
    is_comment = _comments(sample.lines)
    lines = [line for line in sample.lines if line.strip() and not _MARK.match(line) and not is_comment(line)]
    rows = [fields_of(line) for line in lines]
    if not rows:
        return False
    if _numbered(sample.lines) is not None:
        return True
    good = [len(row) for row in rows if len(row) > 1 and (tag_schemes.is_tag(row[-1]) or _is_reversed(row))]
    if not any("\t" in line for line in sample.lines):
        width, of_one_width = Counter(good).most_common(1)[0] if good else (0, 0)
        is_told = (
            len(rows) >= (_ROWS_OF_TWO if width == 2 else _ROWS_OF_MORE)
            or any(map(_MARK.match, sample.lines))
            or files.suffix(sample.path) in _SUFFIXES
        )
        return is_told and of_one_width >= 0.9 * len(rows)
    return len(good) >= 0.9 * len(rows)


def fields_of(line: str) -> list[str]:
    """The fields of a row, between tabs where it has one, otherwise between spaces; less empty last ones."""
    if "\t" in line:
        return line.rstrip("\t ").split("\t")
    return [part for part in line.split(" ") if part] or [""]


def read(unit: FileUnit) -> Reading:
    """The documents of a column file."""
    reading = Reading()
    (path,) = unit.paths
    lines = files.split_lines(files.read_text(path, reading))
    layout = _layout(lines)
    reading.ignored.update(_columns_beside(lines, layout))
    blocks = list(_blocks(lines, layout, reading))
    _drop_languages(blocks, reading)
    scheme = tag_schemes.scheme_of(layer for b in blocks for s in b.sentences for layer in s.tags)
    has_breaks = any(len(block.sentences) > 1 for block in blocks)
    if len(blocks) == 1 and has_breaks and not unit.whole and blocks[0].line == 0:
        blocks = _one_a_sentence(blocks[0])
    for block in blocks:
        name = f"{unit.name}:{block.line}" if block.line else unit.name
        where = f"{path}:{block.line or 1}"
        document_id = block.document_id or name
        if block.bad:
            more = f" and {counted(len(block.bad) - 1, 'more line')}" if len(block.bad) > 1 else ""
            what = f"no word with a tag (O, B-TYPE, I-TYPE, ...) on this line{more}"
            reading.reject(f"{path}:{block.bad[0]}", what, "give each word a tag", document_id)
        elif block.sentences:
            reading.add(_document(block, document_id, scheme, has_breaks, reading), where)
    return reading


def _columns_beside(lines: Sequence[str], layout: _Layout) -> Counter[str]:
    """Columns of tags, none of chunks, that are not read: they may be what is right, of another layer, or
    what a model found."""
    rows = [fields_of(line) for line in _rows(lines[:LOOKED_AT])]
    width = min(map(len, rows), default=0)
    found = Counter[str]()
    read = {place % width for place in layout.tags} if width else set()
    for place in sorted({*range(layout.word + 1, width)} - read):
        tags = _tags_at(rows, place)
        if len(tags) >= 0.9 * len(rows) and set(tags) != {"O"} and not tag_schemes.is_chunks(tags):
            found[f"column {place + 1}, of tags beside the last"] += 1
    return found


def _tags_at(rows: Iterable[Sequence[str]], place: int) -> list[str]:
    return [row[place] for row in rows if place < len(row) and tag_schemes.is_tag(row[place])]


def _is_reversed(row: Sequence[str]) -> bool:
    """Whether the row is a tag and its word."""
    return len(row) == 2 and tag_schemes.is_tag(row[0])


def _layout(lines: Sequence[str]) -> _Layout:
    lines = lines[:LOOKED_AT]
    numbered = _numbered(lines)
    if numbered is not None:
        return numbered
    rows = [fields_of(line) for line in _rows(lines)]
    last = sum(len(row) > 1 and tag_schemes.is_tag(row[-1]) for row in rows)
    first = sum(map(_is_reversed, rows))
    return _Layout(1, (0,)) if first > last else _Layout(0, (-1,))


def _numbered(lines: Sequence[str]) -> _Layout | None:
    """The columns where the first counts the words of each sentence, from 0 or 1; None where it does not."""
    rows: list[list[str]] = []
    counting, number = 0, -1
    for line in lines:
        row = fields_of(line)
        if not line.strip():
            number = -1
        elif not line.startswith(("#", "-DOC")) and not _OF_SEVERAL.fullmatch(row[0]):
            if row[0] == str(number + 1) or (number < 0 and row[0] == "1"):
                number = int(row[0])
                counting += 1
            rows.append(row)
    if not rows or counting < 0.9 * len(rows):
        return None
    tagged = Counter(place for row in rows for place in range(2, len(row)) if tag_schemes.is_tag(row[place]))
    columns = sorted(place for place, count in tagged.items() if count >= 0.9 * len(rows))
    first = columns[0] if columns else 0
    of_chunks = [place for place in columns if tag_schemes.is_chunks(_tags_at(rows, place))]
    columns = [place for place in columns if place not in of_chunks] or of_chunks
    if not columns:
        return None
    # Tags right behind the word are layers; behind other columns, all but the last are of something else.
    return _Layout(1, tuple(columns if first == 2 else columns[-1:]), is_numbered=True)


def _rows(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line.strip() and not line.startswith(("#", "-DOC"))]


def _comments(lines: Sequence[str]) -> Callable[[str], bool]:
    """Whether a line that begins with `#` is parted otherwise than the rows of these lines are: a comment may
    end in what looks like a tag."""
    rows = _rows(lines[:LOOKED_AT])
    has_tabs = any("\t" in row for row in rows)
    widths = Counter(len(fields_of(row)) for row in rows).most_common(1)

    def is_comment(line: str) -> bool:
        if not line.startswith("#"):
            return False
        if has_tabs or not widths:
            return "\t" not in line
        return len(fields_of(line)) != widths[0][0]

    return is_comment


def _drop_languages(blocks: Iterable[_Block], reading: Reading) -> None:
    """Of `en:London`, as WikiAnn has all words of a file, `London`."""
    sentences = [sentence for block in blocks for sentence in block.sentences]
    words = [word for sentence in sentences for word in sentence.words]
    first = _LANGUAGE.match(words[0]) if len(words) >= _WORDS_OF_A_LANGUAGE else None
    if first is None or not all(word.startswith(first[0]) and word != first[0] for word in words):
        return
    reading.repaired[f"language before a word ({first[0]}): left out"] += len(words)
    for sentence in sentences:
        sentence.words = [word.removeprefix(first[0]) for word in sentence.words]


def _blocks(lines: Sequence[str], layout: _Layout, reading: Reading) -> Iterator[_Block]:
    block = _Block(0, None)
    sentence: _Sentence | None = None
    is_comment = _comments(lines)
    for number, line in enumerate(lines, 1):
        row = fields_of(line)
        if not line.strip(" \t"):
            sentence = None
            continue
        if layout.is_numbered and _OF_SEVERAL.fullmatch(row[0]):
            reading.ignored["row of several words, or of none"] += 1
            continue
        is_row = layout.holds(row) and not is_comment(line)
        follows = number < len(lines) and bool(lines[number].strip(" \t"))
        is_word = is_row and not _is_docstart(row, layout, sentence is not None and follows)
        mark = None if is_word or line[0] not in "#-" else _MARK.match(line)
        if mark is not None:
            if block.sentences or block.bad:
                yield block
            block = _Block(number, (mark["bracketed"] or mark["named"] or "").split("\t")[0].strip() or None)
            sentence = None
        elif is_row and not row[layout.word]:
            reading.repaired["tag without a word: left out"] += 1
        elif is_row:
            if sentence is None:
                sentence = _Sentence(number, tags=[[] for _ in layout.tags])
                block.sentences.append(sentence)
            sentence.words.append(row[layout.word])
            for layer, place in zip(sentence.tags, layout.tags, strict=True):
                layer.append(row[place])
        elif _END.match(line):
            sentence = None
        elif line.startswith("#") and sentence is None:
            reading.ignored["comment"] += 1
        else:
            if sentence is None:
                sentence = _Sentence(number, tags=[[] for _ in layout.tags])
                block.sentences.append(sentence)
            block.bad.append(number)
    if block.sentences or block.bad:
        yield block


def _is_docstart(row: Sequence[str], layout: _Layout, is_inside: bool) -> bool:
    """Whether a row with tags is a document mark, and not a word of that form: one with the tag of an entity,
    or, in a row that does not say otherwise, one between others of a sentence."""
    if row[layout.word] != DOCUMENT_MARK:
        return row[0].startswith(DOCUMENT_MARK)
    return all(row[place] == "O" for place in layout.tags) and ("-X-" in row or not is_inside)


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
        for layer in sentence.tags:
            for first, after, type_ in tag_schemes.spans_of(layer, scheme, reading.repaired):
                mentions.append(Mention(words[before + first][0], words[before + after - 1][1], type_))
        before += len(sentence.words)
    return Document(document_id, text, in_order(mentions), words, sentences if has_breaks else None)
