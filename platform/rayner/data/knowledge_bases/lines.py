"""The lines of a knowledge base's file."""

from __future__ import annotations

from pathlib import Path

from rayner.data.knowledge_bases.builder import Builder
from rayner.data.readers.files import decode, read_bytes, split_lines, without_mark
from rayner.errors import KnowledgeBaseError


def read_text(path: Path, builder: Builder) -> str:
    """The text of a UTF-8 file, unpacked where it ends in .gz; a byte-order mark is removed and counted.

    Raises:
        KnowledgeBaseError: an empty file.
        CorpusError: bytes that are not UTF-8, with their line.
        FileError: a file that cannot be read.
    """
    data = read_bytes(path)
    if not data.strip():
        raise KnowledgeBaseError(str(path), "an empty file", "remove it, or restore its content")
    return without_mark(decode(data, path), builder.repaired)


def read_lines(path: Path, builder: Builder) -> list[tuple[int, str]]:
    """The lines that hold something, with their numbers from 1."""
    lines = split_lines(read_text(path, builder))
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
