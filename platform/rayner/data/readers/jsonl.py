"""JSON lines: rows of our schema, or of the published BINDER data (`entity_types`, ...)."""

from __future__ import annotations

from dataclasses import replace

from rayner.data.json_lines import OF_AN_ARRAY, is_array, json_values
from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.readers.json_rows import has_fields
from rayner.data.readers.rows import add_row
from rayner.errors import CorpusError


def parts(unit: FileUnit) -> list[FileUnit]:
    """A file as runs of whole lines of about `files.PART_BYTES`; a packed or blank one in one piece."""
    (path,) = unit.paths
    size = files.size_of(path)
    if files.is_packed(path) or size < 2 * files.PART_BYTES:
        return [unit]
    found: list[FileUnit] = []
    begin = place = before = 0
    blank = True
    while place < size:
        data = files.read_span(path, (place, min(place + files.PART_BYTES, size)))
        blank = blank and not data.removeprefix(b"\xef\xbb\xbf").strip()
        end = len(data) if place + len(data) == size else data.rfind(b"\n") + 1
        if end:
            found.append(replace(unit, span=(begin, place + end), first=before))
            begin, before = place + end, before + data.count(b"\n", 0, end)
        place += len(data)
    return found if len(found) > 1 and not blank else [unit]


def matches(sample: Sample) -> bool:
    """Whether the first line is a JSON object with a text, or the name says JSON lines."""
    named = files.suffix(sample.path) in (".jsonl", ".ndjson")
    return (named and not is_array(sample.lines)) or has_fields(sample, "text")


def read(unit: FileUnit) -> Reading:
    """The documents of a file, one a line; rows without an id are named `NAME:LINE`."""
    reading = Reading()
    (path,) = unit.paths
    data = files.read_bytes(path) if unit.span is None else files.read_span(path, unit.span)
    if not data:
        raise CorpusError(path, "an empty file", "remove it, or restore its content")
    if not unit.first and is_array([data[:1000].decode(errors="replace")]):
        raise CorpusError(f"{path}:1", "an array of objects", OF_AN_ARRAY)
    lines = files.text_lines(data, path, reading, unit.first)
    for number, where, row in json_values(lines, path, reading.reject):
        add_row(row, where, f"{unit.name}:{number}", reading)
    return reading
