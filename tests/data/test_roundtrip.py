"""What is written reads back equal, up to what the format holds."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings

from rayner.data.readers import Reading, read_corpus
from rayner.data.schema import Document, Mention
from rayner.data.writers import (
    Written,
    write_bioc,
    write_bioc_json,
    write_brat,
    write_iob2,
    write_jsonl,
    write_parquet,
    write_pubtator,
)
from tests.data.drawn import corpora, full_documents, ordered, standoff_documents, word_documents

FEW = settings(suppress_health_check=[HealthCheck.too_slow])


class Folder:
    """A folder of its own for each example."""

    def __enter__(self) -> Path:
        self._folder = TemporaryDirectory()
        return Path(self._folder.name)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder.name)


def whole(reading: Reading, written: Written, documents: Sequence[Document]) -> None:
    assert not reading.rejects
    assert written.documents == len(documents)
    assert written.mentions == sum(len(d.mentions) for d in documents)


@FEW
@given(corpora(full_documents()))
def test_parquet(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_parquet(documents, folder / "a.parquet")
        reading = read_corpus(folder / "a.parquet")
        assert reading.documents == documents
        whole(reading, written, documents)


@FEW
@given(corpora(full_documents()))
def test_jsonl(documents: list[Document]) -> None:
    with Folder() as folder:
        for name in ("a.jsonl", "b.jsonl.gz"):
            written = write_jsonl(documents, folder / name)
            reading = read_corpus(folder / name)
            assert reading.documents == documents
            whole(reading, written, documents)


@FEW
@given(corpora(standoff_documents()))
def test_brat(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_brat(documents, folder)
        reading = read_corpus(folder)
        # Files come in the order of their names with the suffix: "0-.txt" before "0.txt".
        assert sorted(reading.documents, key=lambda d: d.document_id) == ordered(documents)
        assert not written.dropped
        whole(reading, written, documents)


@FEW
@given(corpora(standoff_documents()))
def test_pubtator(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_pubtator(documents, folder / "a.txt")
        reading = read_corpus(folder / "a.txt")
        assert set(written.dropped) <= {"line break", "mention that ends in a line break"}
        if not written.dropped:
            assert ordered(reading.documents) == ordered(documents)
        assert not reading.rejects
        assert Counter(m.type for d in reading.documents for m in d.mentions) == written.types


@FEW
@given(corpora(standoff_documents()))
def test_bioc_json(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_bioc_json(documents, folder / "a.json")
        reading = read_corpus(folder / "a.json")
        assert ordered(reading.documents) == ordered(documents)
        assert not written.dropped
        assert not reading.repaired
        whole(reading, written, documents)


@FEW
@given(corpora(standoff_documents()))
def test_bioc(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_bioc(documents, folder / "a.xml")
        reading = read_corpus(folder / "a.xml")
        whole(reading, written, documents)
        read, given = ordered(reading.documents), ordered(documents)
        assert [d.mentions for d in read] == [d.mentions for d in given]
        assert set(written.dropped) <= {"character that XML cannot hold"}
        pairs = [
            pair
            for one, other in zip(read, given, strict=True)
            for pair in zip(one.text, other.text, strict=True)
        ]
        assert sum(a != b for a, b in pairs) == sum(written.dropped.values())


@FEW
@given(corpora(word_documents()))
def test_iob2(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_iob2(documents, folder / "a.tsv")
        reading = read_corpus(folder / "a.tsv", "columns")
        assert reading.documents == documents
        assert not written.dropped
        assert not reading.repaired
        whole(reading, written, documents)


@FEW
@given(corpora(standoff_documents()))
def test_iob2_of_texts_without_words_keeps_or_counts_every_mention(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_iob2(documents, folder / "a.tsv")
        lost = sum(n for what, n in written.dropped.items() if what.startswith(("mention ", "nested")))
        assert written.mentions + lost == sum(len(d.mentions) for d in documents)
        content = (folder / "a.tsv").read_text()
        assert (
            sum(row.rpartition("\t")[2].startswith("B-") for row in content.split("\n")) == written.mentions
        )
        if not written.dropped:
            read = read_corpus(folder / "a.tsv", "columns").documents
            assert [(d.document_id, d.text) for d in read] == [(d.document_id, d.text) for d in documents]


def test_scores_are_float32() -> None:
    score = struct.unpack("f", struct.pack("f", 0.1))[0]
    document = Document("a", "Ann", (Mention(0, 3, "PER", score=0.1),))
    with Folder() as folder:
        write_parquet([document], folder / "a.parquet")
        assert read_corpus(folder / "a.parquet").documents[0].mentions[0].score == score
