"""What is written reads back equal, up to what the format holds."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayner.data.readers import Reading, read_corpus
from rayner.data.schema import Document, Mention, Span
from rayner.data.writers import (
    Written,
    write_brat,
    write_iob2,
    write_jsonl,
    write_livingner,
    write_parquet,
    write_pubtator,
)

FEW = settings(suppress_health_check=[HealthCheck.too_slow])

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(st.one_of(st.sampled_from("ab \n\t\r\u00e9\U0001f600\ufeff\u2028"), LETTERS), max_size=30)
IDS = st.text(st.sampled_from("abcXYZ019-"), min_size=1, max_size=6)
NAMES = st.text(LETTERS, min_size=1, max_size=5)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
SCORED = st.lists(st.tuples(NAMES, SCORES), max_size=2).map(tuple)
TYPES = st.sampled_from(["PER", "Disease", "creative-work"])
ENTITIES = st.sampled_from([None, "D012", "D1|D2", "MESH:D3", "a:b:c"])


def spans(size: int) -> st.SearchStrategy[Span]:
    return st.tuples(st.integers(0, size - 1), st.integers(1, size)).map(
        lambda s: (min(s[0], s[1] - 1), s[1])
    )


@st.composite
def full_documents(draw: st.DrawFn) -> Document:
    """Anything that the schema allows."""
    text = draw(TEXTS)
    mentions: list[Mention] = []
    if text:
        for start, end in draw(st.lists(spans(len(text)), max_size=4)):
            mentions.append(
                Mention(
                    start,
                    end,
                    draw(NAMES),
                    draw(st.none() | NAMES),
                    draw(st.none() | NAMES),
                    draw(st.none() | spans(len(text))),
                    draw(st.none() | SCORES),
                    draw(SCORED),
                    draw(SCORED),
                    draw(st.none() | SCORES),
                    draw(st.none() | SCORES),
                )
            )
    some = st.none() | (st.lists(spans(len(text)), max_size=3).map(tuple) if text else st.just(()))
    return Document(
        draw(IDS),
        text,
        tuple(mentions),
        draw(some),
        draw(some),
        draw(st.none() | NAMES),
        draw(st.none() | NAMES),
        draw(st.none() | st.lists(NAMES, max_size=2).map(tuple)),
    )


@st.composite
def standoff_documents(draw: st.DrawFn) -> Document:
    """A text with types and entity ids that standoff formats hold."""
    text = draw(TEXTS.filter(bool))
    mentions = [
        Mention(*s, draw(TYPES), draw(ENTITIES)) for s in draw(st.lists(spans(len(text)), max_size=4))
    ]
    return Document(draw(IDS), text, tuple(mentions))


@st.composite
def word_documents(draw: st.DrawFn) -> Document:
    """Words joined as column files join them, with flat mentions."""
    word = st.text(st.sampled_from("ab,#-\u00e9\u4e2d\ufeff\u00a0"), min_size=1, max_size=4)
    sentences = draw(st.lists(st.lists(word, min_size=1, max_size=5), min_size=2, max_size=3))
    words: list[Span] = []
    bounds: list[Span] = []
    mentions: list[Mention] = []
    place = 0
    for sentence in sentences:
        first = len(words)
        for each in sentence:
            words.append((place, place + len(each)))
            place += len(each) + 1
        bounds.append((words[first][0], words[-1][1]))
        while first < len(words):
            length = draw(st.integers(0, len(words) - first))
            if length:
                mentions.append(Mention(words[first][0], words[first + length - 1][1], draw(TYPES)))
            first += max(length, 1)
    text = "\n".join(map(" ".join, sentences))
    return Document(draw(IDS), text, tuple(mentions), tuple(words), tuple(bounds))


def corpora(documents: st.SearchStrategy[Document]) -> st.SearchStrategy[list[Document]]:
    return st.lists(documents, min_size=1, max_size=3, unique_by=lambda d: d.document_id.lower())


def ordered(documents: Sequence[Document]) -> list[Document]:
    """Documents by id, mentions as readers order them."""

    def key(mention: Mention) -> tuple[int, int, str, str]:
        return mention.start, -mention.end, mention.type, mention.entity_id or ""

    documents = [replace(d, mentions=tuple(sorted(d.mentions, key=key))) for d in documents]
    return sorted(documents, key=lambda d: d.document_id)


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
        write_parquet(documents, folder / "shards", documents_per_shard=1)
        assert read_corpus(folder / "shards").documents == documents


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
def test_livingner(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_livingner(documents, folder)
        reading = read_corpus(folder)
        assert ordered(reading.documents) == ordered(documents)
        assert not written.dropped
        whole(reading, written, documents)


@FEW
@given(corpora(standoff_documents()))
def test_pubtator(documents: list[Document]) -> None:
    with Folder() as folder:
        written = write_pubtator(documents, folder / "a.txt")
        reading = read_corpus(folder / "a.txt")
        assert set(written.dropped) <= {"line break"}
        if not written.dropped:
            assert ordered(reading.documents) == ordered(documents)
        assert not reading.rejects or any(
            "outside" in r.what or "end after" in r.what for r in reading.rejects
        )


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
