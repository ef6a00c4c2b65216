"""Plain text: one document a file, without mentions."""

from __future__ import annotations

from collections.abc import Sequence

from rayner.data.readers import files
from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.data.schema import Document

_ROWS_OF_TWO, _ROWS_OF_MORE = 2, 4
"""How many rows are no text by chance."""


def matches(sample: Sample) -> bool:
    """Whether the name says text, and no line is a word and its tag. Any other format goes before."""
    return files.suffix(sample.path) in (".txt", ".text") and not _is_tagged(sample.lines)


def _is_tagged(lines: Sequence[str]) -> bool:
    """Whether each line has a word, as many fields as the others, and a tag, many of which are `O`: tags that
    no format knows, as of Few-NERD (`person-actor`), are no reason to take a corpus for a text without
    mentions."""
    fields = [line.split() for line in lines if line.strip()]
    widths = {len(one) for one in fields}
    outside = sum(one[-1] == "O" for one in fields)
    fewest = _ROWS_OF_TWO if widths == {2} else _ROWS_OF_MORE
    return len(widths) == 1 and widths != {1} and len(fields) >= fewest and outside > len(fields) / 4


def read(unit: FileUnit) -> Reading:
    """The document of a text file; line ends stay as they are."""
    reading = Reading()
    (path,) = unit.paths
    reading.add(Document(unit.name, files.read_text(path, reading)), path)
    return reading
