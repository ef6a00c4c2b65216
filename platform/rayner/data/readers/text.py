"""Plain text: one document a file, without mentions."""

from __future__ import annotations

from rayner.data.readers import files
from rayner.data.readers.base import Reading, Sample, Unit
from rayner.data.schema import Document


def matches(sample: Sample) -> bool:
    """Whether the name says text. Any other format that fits goes before."""
    return files.suffix(sample.path) in (".txt", ".text")


def read(unit: Unit) -> Reading:
    """The document of a text file; line ends stay as they are."""
    reading = Reading()
    (path,) = unit.paths
    reading.add(Document(unit.name, files.read_text(path, reading)), path)
    return reading
