"""Plain text: one document a file, without mentions."""

from __future__ import annotations

from collections.abc import Sequence

from rayner.data.readers import files
from rayner.data.readers.base import Reading, Sample, Unit
from rayner.data.schema import Document


def matches(sample: Sample) -> bool:
    """Whether the name says text, and no line is a word and its tag. Any other format goes before."""
    return files.suffix(sample.path) in (".txt", ".text") and not _is_tagged(sample.lines)


def _is_tagged(lines: Sequence[str]) -> bool:
    """Whether each line is a word and a tag, of which many are `O`: tags that no format knows, as of Few-NERD
    (`person-actor`), are no reason to take a corpus for a text without mentions."""
    fields = [line.split() for line in lines if line.strip()]
    outside = sum(len(one) == 2 and one[1] == "O" for one in fields)
    return len(fields) > 1 and all(len(one) == 2 for one in fields) and outside > len(fields) / 4


def read(unit: Unit) -> Reading:
    """The document of a text file; line ends stay as they are."""
    reading = Reading()
    (path,) = unit.paths
    reading.add(Document(unit.name, files.read_text(path, reading)), path)
    return reading
