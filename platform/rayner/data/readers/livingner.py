"""LivingNER: one TSV of `filename mark label off0 off1 span [... code]` for many .txt files near it.

Texts that the TSV does not name are documents without mentions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample, entity_of, in_order
from rayner.data.readers.offsets import explain, holds
from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError

HEADER = ("filename", "mark", "label", "off0", "off1", "span")
_CODES = ("code", "NCBITax", "entity_id")


def units(paths: Sequence[Path]) -> list[FileUnit]:
    """One unit a TSV with its texts: those given, else those in its folder or below the folder above it.

    Texts that no TSV names go with the first.
    """
    tables = [path for path in paths if files.suffix(path) != ".txt"]
    texts = [path for path in paths if files.suffix(path) == ".txt"]
    near = {table: texts or _texts_near(table) for table in tables}
    owned: list[list[Path]] = []
    for table in tables:
        # Of several of a name, that beside the table.
        around = {
            files.stem(path): path
            for path in sorted(near[table], key=lambda path: path.parent == table.parent)
        }
        owned.append([around[stem] for stem in sorted(_named_in(table) & around.keys())])
    taken = set(chain.from_iterable(owned))
    left = dict.fromkeys(path for path in texts or chain.from_iterable(near.values()) if path not in taken)
    if owned:
        owned[0] += left
    elif left:
        raise CorpusError(
            str(texts[0].parent), "texts without a TSV", f"add one with the header {' '.join(HEADER)}"
        )
    return [
        FileUnit("livingner", (str(table), *map(str, sorted(keep))), name)
        for table, keep, name in zip(tables, owned, files.names(tables), strict=True)
    ]


def _named_in(table: Path) -> set[str]:
    """The texts that a table has rows of."""
    return {line.split("\t", 1)[0] for line in files.split_lines(files.read_text(table, Reading()))[1:]}


def matches(sample: Sample) -> bool:
    """Whether the header is LivingNER's."""
    return bool(sample.lines) and tuple(sample.lines[0].split("\t")[: len(HEADER)]) == HEADER


def read(unit: FileUnit) -> Reading:
    """The documents of a TSV, in the order of their names."""
    reading = Reading()
    path, *texts = unit.paths
    lines = files.split_lines(files.read_text(path, reading))
    if not matches(Sample(Path(path), tuple(lines[:1]))):
        raise CorpusError(f"{path}:1", "another header", f"write {' '.join(HEADER)} between tabs")
    header = lines[0].split("\t")
    code = next((header.index(name) for name in _CODES if name in header), len(header))
    rows: dict[str, list[tuple[int, list[str]]]] = {files.stem(Path(text)): [] for text in texts}
    for number, line in enumerate(lines[1:], 2):
        row = line.split("\t")
        if row[0] in rows:
            rows[row[0]].append((number, row))
        elif line.strip():
            what = f"no {row[0]}.txt near the table"
            reading.reject(f"{path}:{number}", what, "put the texts beside it", row[0])
    for text_path in texts:
        document_id = files.stem(Path(text_path))
        try:
            text = files.read_text(text_path, reading)
        except CorpusError as error:
            reading.reject(error.where, error.what, error.hint, document_id)
            continue
        mentions = [_mention(text, row, f"{path}:{n}", code, reading) for n, row in rows[document_id]]
        kept = in_order([mention for mention in mentions if mention is not None])
        reading.add(Document(document_id, text, kept), text_path)
    return reading


def _texts_near(table: Path) -> list[Path]:
    folder = table.parent
    for found in (folder.iterdir(), folder.rglob("*"), folder.parent.rglob("*")):
        if texts := sorted(path for path in found if files.suffix(path) == ".txt"):
            return texts
    return []


def _mention(text: str, row: Sequence[str], where: str, code: int, reading: Reading) -> Mention | None:
    try:
        _, _, label, first, last, surface = row[: len(HEADER)]
        start, end = int(first), int(last)
    except ValueError:
        what = f"{' '.join(row)[:60]!r} does not fit the header"
        reading.reject(where, what, f"write {' '.join(HEADER)} between tabs", row[0])
        return None
    if not holds(text, start, end, surface, reading):
        reading.reject(where, *explain(text, start, end, surface), row[0])
        return None
    return Mention(start, end, label, entity_of(row[code]) if code < len(row) else None)
