"""`corpus convert --to`: what comes back is what was there, and all that does not is listed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rayner.cli.corpus import convert as command
from rayner.data import scans
from rayner.data.readers import read_corpus
from rayner.data.readers.base import entity_of
from rayner.data.schema import Document, Mention
from rayner.data.words import find_words
from rayner.data.writers import WRITERS, write_jsonl, write_parquet
from rayner.errors import CorpusError, InputError
from rayner.runtime.corpora import taken
from rayner.runtime.corpora.convert import convert
from tests.data.drawn import corpora, full_documents, ordered, standoff_documents, word_documents
from tests.runtime.corpora.converted import content
from tests.waiting import wait_for

READER = {"parquet": "parquet", "jsonl": "jsonl", "iob2": "columns", "brat": "brat", "pubtator": "pubtator"}
FEW = settings(suppress_health_check=[HealthCheck.too_slow], max_examples=20)


def has_words(document: Document) -> bool:
    """Whether any format can hold something of it."""
    if document.words is None:
        return bool(find_words(document.text))
    return any(start < end for start, end in document.words)


ANY = st.one_of(corpora(full_documents()), corpora(standoff_documents()), corpora(word_documents())).filter(
    lambda documents: any(map(has_words, documents))
)


@contextmanager
def converted(documents: Sequence[Document], to: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folder of the documents in a format, and the counts."""
    with tempfile.TemporaryDirectory() as folder:
        write_jsonl(documents, Path(folder, "in.jsonl"))
        out = Path(folder, "out")
        yield out, convert([Path(folder, "in.jsonl")], out, workers=0, to=to)


def losses_of(out: Path) -> list[dict[str, Any]]:
    path = out / "losses.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


def bare(document: Document, like: Document) -> Document:
    """Without words and sentences, where the format has some and the original had none.

    One sentence that is the whole text is as good as none.
    """
    whole = ((0, len(like.text)),)
    sentences = document.sentences
    if like.sentences is None:
        sentences = None
    elif like.sentences == whole:
        sentences = sentences or whole
    return replace(document, words=None if like.words is None else document.words, sentences=sentences)


@pytest.mark.parametrize("to", READER)
def test_what_does_not_come_back_is_listed_by_document(to: str) -> None:
    @FEW
    @given(ANY)
    @example([Document("0", "0", (Mention(0, 1, "0"), Mention(0, 1, "\x85a")))])
    @example([Document("0", "00", (Mention(0, 1, "0"), Mention(0, 2, "0")), words=((0, 2), (0, 1)))])
    def held(documents: list[Document]) -> None:
        with converted(documents, to) as (out, counts):
            losses = losses_of(out)
            told = {loss["document_id"] for loss in losses}
            listed = Counter[str]()
            for loss in losses:
                listed[loss["what"]] += loss["count"]
            assert counts.get("lost", {}) == dict(listed)
            read = {d.document_id: d for d in read_corpus(out, READER[to]).documents}
            given = {d.document_id: d for d in ordered(documents)}
            for name in given.keys() - told:
                (found,) = ordered([bare(read[name], given[name])])
                assert found == given[name]
            if not told:
                assert counts["documents"] == len(documents) == len(read)
                assert counts["mentions"] == sum(len(d.mentions) for d in documents)

    held()


@FEW
@given(ANY)
@example([Document("0", "0", (Mention(0, 1, "0"), Mention(0, 1, "0", " ")))])
def test_docbin(documents: list[Document]) -> None:
    spacy = pytest.importorskip("spacy", reason="the extra spacy is not installed")
    with converted(documents, "docbin") as (out, counts):
        listed: dict[str, set[str]] = {}
        for loss in losses_of(out):
            listed.setdefault(loss["document_id"], set()).add(loss["what"])
        (path,) = out.glob("*.spacy")
        vocab = spacy.vocab.Vocab()
        docs = list(spacy.tokens.DocBin().from_disk(path).get_docs(vocab))
        assert counts["documents"] == len(docs) == len(documents)
        assert counts["mentions"] == sum(len(d.mentions) for d in documents)
        for doc, document in zip(docs, documents, strict=True):
            lost = listed.get(document.document_id, set())
            assert doc.text == document.text
            assert doc.user_data["document_id"] == document.document_id
            for name in ("language", "group", "annotated_types"):
                found = doc.user_data.get(name)
                assert (tuple(found) if isinstance(found, list) else found) == getattr(document, name)
            mentions = {(m.start, m.end, m.type, m.entity_id) for m in document.mentions}
            spans = [(s.start_char, s.end_char, s.label_, s.kb_id_ or None) for s in doc.spans["sc"]]
            assert set(spans) == mentions
            assert ("mention given twice" in lost) == (len(mentions) < len(document.mentions))
            flat = {(s.start_char, s.end_char, s.label_, s.kb_id_ or None) for s in doc.ents}
            assert flat <= mentions
            assert all(any(a < end and start < b for a, b, _, _ in flat) for start, end, _, _ in mentions)
            words = [(t.idx, t.idx + len(t)) for t in doc if not t.text.isspace()]
            assert document.words is None or words == list(document.words) or "words" in lost
            if document.sentences is not None and "sentences" not in lost:
                starts = [sentence.start_char for sentence in doc.sents]
                # White space before the first one is a sentence of spaCy.
                leading = document.sentences[0][0] > 0
                assert starts[leading:] == [start for start, _ in document.sentences]
        for found, document in zip(read_corpus(path).documents, documents, strict=True):
            ids = {m.entity_id: m.entity_id and entity_of(m.entity_id) for m in document.mentions}
            assert ("entity_id" in listed.get(document.document_id, ())) == any(
                a != b for a, b in ids.items()
            )
            own = {(m.start, m.end, m.type, ids[m.entity_id]) for m in document.mentions}
            same = ("document_id", "text", "language", "group", "annotated_types")
            assert [getattr(found, name) for name in same] == [getattr(document, name) for name in same]
            assert {(m.start, m.end, m.type, m.entity_id) for m in found.mentions} == own
            assert len(found.mentions) == len(own)
            assert document.sentences is not None or found.sentences is None


@pytest.mark.parametrize(
    ("corpus", "to"),
    [
        ("ncbi-disease-pubtator/NCBIdevelopset_corpus.txt", "pubtator"),
        ("ncbi-disease-pubtator/NCBIdevelopset_corpus.txt", "iob2"),
        ("litbank/entities_brat", "brat"),
        ("litbank/entities_brat", "iob2"),
        ("wnut17/emerging.dev.conll", "iob2"),
        ("pharmaconer/valid", "jsonl"),
        ("literary-ner-dekker/Ulysses.conll", "parquet"),
    ],
)
def test_real_corpora(corpora: Path, tmp_path: Path, corpus: str, to: str) -> None:
    given = {d.document_id: d for d in ordered(read_corpus(corpora / corpus).documents)}
    out = tmp_path / "out"
    counts = convert([corpora / corpus], out, workers=0, to=to)
    read = {d.document_id: d for d in ordered(read_corpus(out, READER[to]).documents)}
    lost: dict[str, list[dict[str, Any]]] = {}
    for loss in losses_of(out):
        lost.setdefault(loss["document_id"], []).append(loss)
    assert counts["documents"] == len(read) == len(given)
    assert counts["mentions"] == sum(len(d.mentions) for d in read.values())
    gone = sum(
        len(loss["mentions"]) for of_one in lost.values() for loss in of_one if "mention" in loss["what"]
    )
    assert counts["mentions"] + gone == sum(len(d.mentions) for d in given.values())
    for name in given.keys() - lost.keys():
        (found,) = ordered([bare(read[name], given[name])])
        assert found == given[name]
    assert bool(lost) == ((corpus, to) in LOSSY)


LOSSY = {
    ("ncbi-disease-pubtator/NCBIdevelopset_corpus.txt", "iob2"),
    ("litbank/entities_brat", "iob2"),
}

NESTED = Document(
    "a",
    "the king of Spain",
    (Mention(0, 17, "PER", "Q1"), Mention(12, 17, "GPE")),
    group="book",
)


def test_losses_name_their_mentions(tmp_path: Path) -> None:
    write_jsonl([NESTED, replace(NESTED, document_id="b", mentions=(), group=None)], tmp_path / "in.jsonl")
    counts = convert([tmp_path / "in.jsonl"], tmp_path / "out", workers=0, to="iob2")
    assert counts["lost"] == {"group": 1, "entity_id": 1, "nested or overlapping mention": 1}
    assert (counts["to"], counts["documents"], counts["mentions"]) == ("iob2", 2, 1)
    assert counts["types"] == {"PER": 1}
    assert losses_of(tmp_path / "out") == [
        {"document_id": "a", "what": "group", "count": 1, "mentions": []},
        {
            "document_id": "a",
            "what": "entity_id",
            "count": 1,
            "mentions": [{"start": 0, "end": 17, "type": "PER"}],
        },
        {
            "document_id": "a",
            "what": "nested or overlapping mention",
            "count": 1,
            "mentions": [{"start": 12, "end": 17, "type": "GPE"}],
        },
    ]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Thirty files in small parts; two have a document of the same id."""
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(30):
        name = "d0" if i == 17 else f"d{i}"
        write_jsonl([replace(NESTED, document_id=name)], folder / f"f{i:02d}.jsonl")
    return folder


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART_UNITS", 6)


def test_the_same_files_whatever_the_workers(files: Path, tmp_path: Path, ray_cluster: None) -> None:
    for to in ("brat", "iob2"):
        convert([files], tmp_path / f"alone-{to}", workers=0, to=to)
        convert([files], tmp_path / f"shared-{to}", workers=2, to=to)
        assert content(tmp_path / f"alone-{to}") == content(tmp_path / f"shared-{to}")


def test_an_interrupted_writing_goes_on(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert([files], tmp_path / "undisturbed", workers=0, to="brat")
    out, written = tmp_path / "out", []
    original = taken._write

    def stopping(to: str, part: taken.Taken) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(part)
        original(to, part)

    with monkeypatch.context() as patch:
        patch.setattr(taken, "_write", stopping)
        with pytest.raises(KeyboardInterrupt):
            convert([files], out, workers=0, to="brat")
    assert not (out / "counts.json").exists()
    again: list[taken.Taken] = []
    monkeypatch.setattr(taken, "_write", lambda to, part: (again.append(part), original(to, part)))
    convert([files], out, workers=0, to="brat")
    assert len(again) == 5 - 3
    assert content(out) == content(tmp_path / "undisturbed")


DRIVER = """
import sys, threading
from pathlib import Path
from rayner.data import scans
from rayner.runtime.corpora import taken
from rayner.runtime.corpora.convert import convert

scans.PART_UNITS = 6
write = taken._write

done = []

def stopping(to, part):
    if len(done) == 2:
        threading.Event().wait()
    write(to, part)
    done.append(part)

taken._write = stopping
convert([Path(sys.argv[1])], Path(sys.argv[2]), workers=0, to="iob2")
"""


def test_a_killed_writing_goes_on(files: Path, tmp_path: Path) -> None:
    convert([files], tmp_path / "undisturbed", workers=0, to="iob2")
    out = tmp_path / "out"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(files), str(out)])
    try:
        wait_for(lambda: len(list(out.glob(".parts/*/written.json"))) >= 2)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert not (out / "counts.json").exists()
    convert([files], out, workers=0, to="iob2")
    assert content(out) == content(tmp_path / "undisturbed")


def test_a_finished_conversion_is_replaced_only_when_asked(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = convert([files], out, workers=0, to="brat")
    assert convert([files], out, workers=0, to="brat") == first
    (out / "d3.ann").write_text("T1\tX 0 3\tthe\n")
    for to in ("parquet", "iob2"):
        with pytest.raises(CorpusError, match=r"another format.*--fresh"):
            convert([files], out, workers=0, to=to)
    for path in sorted(files.iterdir())[20:]:
        path.unlink()
    with pytest.raises(CorpusError, match="conversion of other files"):
        convert([files], out, workers=0, to="brat")
    assert (out / "d3.ann").read_text() == "T1\tX 0 3\tthe\n"
    convert([files], out, workers=0, to="brat", fresh=True)
    assert len(read_corpus(out).documents) == 19
    convert([files], out, workers=0, to="iob2", fresh=True)
    names = {path.name for path in out.iterdir()}
    assert names == {
        *(f"documents-{i:05d}.iob2" for i in range(4)),
        *(".lock", "counts.json", "losses.jsonl", "rejects.jsonl"),
    }


def test_what_cannot_be_had_is_one_clear_line(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CorpusError, match=r"--to: no format 'conllu'; one of parquet, jsonl, iob2, brat"):
        convert([files], tmp_path / "out", to="conllu")
    with pytest.raises(CorpusError, match="holds the input"):
        convert([files], files, to="brat")
    with pytest.raises(CorpusError, match="holds the input"):
        convert([files / "f03.jsonl"], tmp_path, to="brat")
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(CorpusError, match="holds files that are not from here"):
        convert([files], other, to="iob2")
    with pytest.raises(InputError, match="is a file; name a folder"):
        convert([files], other / "notes.txt", to="iob2")
    monkeypatch.setitem(sys.modules, "spacy.vocab", None)
    with pytest.raises(InputError, match=r"--to docbin: needs spaCy.*pip install 'rayner\[spacy\]'"):
        convert([files], tmp_path / "out", to="docbin")
    assert not (tmp_path / "out").exists()


def test_no_document_that_the_format_holds_is_an_error(tmp_path: Path) -> None:
    write_jsonl([Document("a", "")], tmp_path / "in.jsonl")
    with pytest.raises(CorpusError, match="--to brat: holds none of the documents: document without text"):
        convert([tmp_path / "in.jsonl"], tmp_path / "out", workers=0, to="brat")


def test_the_command_offers_every_writer() -> None:
    offered = get_type_hints(command)["to"]
    assert set(get_args(offered)) == set(WRITERS)


def test_another_try_of_a_part_may_be_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And who is slower leaves alone what others have under way."""
    document = Document("d", "one two", (Mention(0, 3, "A"),))
    source = tmp_path / "part" / "documents.parquet"
    write_parquet([document], source)
    part = taken.Taken(source, np.ones(1, bool))
    folder = part.written("jsonl")
    under_way = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    under_way.mkdir()
    rename = Path.rename

    def slower(self: Path, target: Path) -> Path:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename)
            taken._write("jsonl", part)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", slower)
    taken._write("jsonl", part)
    assert sorted(tmp_path.iterdir()) == sorted([folder, under_way, source.parent])
    assert (folder / "written.json").exists()


def test_a_part_that_cannot_be_put_in_place_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet([Document("d", "one two", (Mention(0, 3, "A"),))], tmp_path / "part.parquet")
    part = taken.Taken(tmp_path / "part.parquet", np.ones(1, bool))

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        taken._write("jsonl", part)
    assert list(tmp_path.iterdir()) == [part.source]
