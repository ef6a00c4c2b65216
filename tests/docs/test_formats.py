"""Every sample of docs/formats.md is detected, and read as the page says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from rayner.data.knowledge_bases import FORMATS as KNOWLEDGE_BASES
from rayner.data.knowledge_bases import detect_format, read_knowledge_base
from rayner.data.mention_readers import detect_reader, read_mention_strings
from rayner.data.readers import FORMATS, detect, read_corpus
from rayner.supervision.dictionary_files import read_dictionary
from tests.docs.pages import ROOT, Block, blocks


def told(block: Block) -> dict[str, str]:
    """What is behind the language of a block: `reader=columns name=a.conll documents=2`."""
    return dict(pair.split("=") for pair in block.info.split()[1:])


def samples(kind: str) -> list[tuple[str, list[Block]]]:
    """The formats that the page shows by `kind=FORMAT`, each with the blocks of its files."""
    found: dict[str, list[Block]] = defaultdict(list)
    for block in blocks(ROOT / "docs/formats.md"):
        if kind in told(block) and not told(block)[kind].isdigit():
            found[told(block)[kind]].append(block)
    return list(found.items())


def write(folder: Path, parts: list[Block]) -> Path:
    for block in parts:
        (folder / told(block)["name"]).write_text(block.text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(("format", "parts"), samples("reader"), ids=lambda value: str(value)[:20])
def test_a_sample_of_a_corpus_is_read(format: str, parts: list[Block], tmp_path: Path) -> None:
    folder = write(tmp_path, parts)
    assert detect(folder) == format
    reading = read_corpus(folder)
    counts = told(parts[-1])
    assert len(reading.documents) == int(counts["documents"])
    assert sum(len(document.mentions) for document in reading.documents) == int(counts["mentions"])
    assert not reading.rejects


@pytest.mark.parametrize(("format", "parts"), samples("kb"), ids=lambda value: str(value)[:20])
def test_a_sample_of_a_knowledge_base_is_read(format: str, parts: list[Block], tmp_path: Path) -> None:
    (path,) = write(tmp_path, parts).iterdir()
    assert detect_format(path) == format
    base, counts = read_knowledge_base(path), told(parts[-1])
    assert len(base.entities) == int(counts["entities"])
    assert sum(1 + len(entity.aliases) for entity in base.entities) == int(counts["names"])


@pytest.mark.parametrize(("format", "parts"), samples("mentions"), ids=lambda value: str(value)[:20])
def test_a_sample_of_mentions_is_read(format: str, parts: list[Block], tmp_path: Path) -> None:
    (path,) = write(tmp_path, parts).iterdir()
    assert detect_reader(path) == format
    assert len(read_mention_strings(path).mentions) == int(told(parts[-1])["count"])


def test_a_sample_of_a_dictionary_is_read(tmp_path: Path) -> None:
    ((_, parts),) = samples("dictionary")
    (path,) = write(tmp_path, parts).iterdir()
    assert len(read_dictionary(path)) == int(told(parts[-1])["count"])


def test_every_format_has_a_sample() -> None:
    are_no_text = {"parquet", "huggingface", "docbin"}
    assert {format for format, _ in samples("reader")} == set(FORMATS) - are_no_text
    assert {format for format, _ in samples("kb")} == set(KNOWLEDGE_BASES) - {"parquet"}
