"""What writers drop is counted by what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import read_corpus
from rayner.data.schema import Document, Mention
from rayner.data.writers import write_bioc, write_brat, write_docbin, write_iob2, write_pubtator

NESTED = Document(
    "a",
    "the king of Spain",
    (Mention(0, 17, "PER", "Q1"), Mention(12, 17, "GPE"), Mention(9, 13, "X")),
    group="book",
)


def test_iob2_keeps_the_outer_mention(tmp_path: Path) -> None:
    written = write_iob2([NESTED], tmp_path / "a.tsv")
    assert dict(written.dropped) == {"nested or overlapping mention": 2, "entity_id": 1, "group": 1}
    assert (tmp_path / "a.tsv").read_text() == (
        "-DOCSTART- (a)\tO\n\nthe\tB-PER\nking\tI-PER\nof\tI-PER\nSpain\tI-PER\n\n"
    )
    assert (written.documents, written.mentions, written.paths) == (1, 1, [tmp_path / "a.tsv"])


def test_iob2_cuts_its_own_words_at_mentions_but_not_the_corpus_words(tmp_path: Path) -> None:
    document = Document("a", "Annsdog ran", (Mention(0, 3, "PER"),))
    assert write_iob2([document], tmp_path / "a.tsv").mentions == 1
    assert read_corpus(tmp_path / "a.tsv", "columns").documents[0].text == "Ann sdog ran"
    worded = Document("a", "Annsdog ran", (Mention(0, 3, "PER"),), words=((0, 7), (8, 11)))
    written = write_iob2([worded], tmp_path / "b.tsv")
    assert dict(written.dropped) == {"mention that begins or ends inside a word or in white space": 1}


def test_iob2_mention_across_sentences_is_counted(tmp_path: Path) -> None:
    document = Document("a", "Ann\nBob", (Mention(0, 7, "X"),), sentences=((0, 3), (4, 7)))
    assert dict(write_iob2([document], tmp_path / "a.tsv").dropped) == {"mention across sentences": 1}


def test_iob2_counts_texts_whose_spacing_it_cannot_hold(tmp_path: Path) -> None:
    documents = [Document(str(i), text) for i, text in enumerate(["Ann ran", "Ann, ran", "Ann  ran", " Ann"])]
    assert dict(write_iob2(documents, tmp_path / "a.tsv").dropped) == {"spacing of a text": 3}


def test_iob2_words_in_the_form_of_a_document_mark(tmp_path: Path) -> None:
    text = "-DOCSTART- and -DOCSTART-2"
    words = ((0, 10), (11, 14), (15, 26))
    document = Document("a", text, (Mention(11, 14, "X"),), words=words)
    assert write_iob2([document], tmp_path / "a.tsv").dropped["hyphen of a word -DOCSTART-"] == 2
    assert [d.text for d in read_corpus(tmp_path / "a.tsv").documents] == ["DOCSTART- and DOCSTART-2"]
    marked = Document("a", text[:14], (Mention(0, 10, "X"),), words=words[:2])
    assert "hyphen of a word -DOCSTART-" not in write_iob2([marked], tmp_path / "b.tsv").dropped
    assert [d.text for d in read_corpus(tmp_path / "b.tsv").documents] == ["-DOCSTART- and"]


@pytest.mark.parametrize("id_", ["Bob_Dylan", "abc", "Q392", "wiki:Bob", "-", " Q1", "\u00a0"])
@pytest.mark.parametrize("write", [write_brat, write_pubtator, write_bioc, write_docbin])
def test_entity_ids_are_read_back_or_counted_as_lost(tmp_path: Path, write: Any, id_: str) -> None:
    if write is write_docbin:
        pytest.importorskip("spacy")
    name = {write_pubtator: "a.pubtator", write_bioc: "a.xml"}.get(write, "folder")
    written = write([Document("a", "Bob", (Mention(0, 3, "PER", id_),))], tmp_path / name)
    (document,) = read_corpus(tmp_path / name).documents
    assert written.dropped["entity_id"] == (id_ in ("-", " Q1", "\u00a0"))
    assert written.dropped["entity_id"] or document.mentions[0].entity_id == id_


def test_ids_that_no_file_can_have(tmp_path: Path) -> None:
    documents = [Document(id_, "x") for id_ in ("art/train:1", "../up", "\u00e9" * 300, "_hidden")]
    written = write_brat(documents, tmp_path / "brat")
    assert written.dropped["document_id (changed to be a file's name)"] == 4
    assert len(read_corpus(tmp_path / "brat").documents) == 4
    assert {path.parent for path in written.paths} == {tmp_path / "brat"}


def test_standoff_writers_count_what_they_drop(tmp_path: Path) -> None:
    document = Document("a", "Ann\nran\nfar", (Mention(0, 3, "fine type", "-1", chain="4"),), words=((0, 3),))
    lost = {"chain": 1, "words": 1, "entity_id": 1}
    assert dict(write_brat([document], tmp_path / "b").dropped) == {**lost, "white space in a type": 1}
    assert dict(write_pubtator([document], tmp_path / "p.txt").dropped) == {**lost, "line break": 1}
    title = Document("t", "Ann\n", (Mention(0, 3, "PER"), Mention(0, 4, "PER")))
    written = write_pubtator([title], tmp_path / "p.txt")
    assert (written.mentions, dict(written.dropped)) == (
        1,
        {"line break": 1, "mention that ends in a line break": 1},
    )
    assert not read_corpus(tmp_path / "p.txt").rejects
    empty = Document("e", "")
    assert dict(write_brat([empty], tmp_path / "b").dropped) == {"document without text": 1}


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("old")

    def broken():
        yield NESTED
        raise RuntimeError

    try:
        write_iob2(broken(), path)
    except RuntimeError:
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]
    else:
        raise AssertionError


@pytest.mark.parametrize("name", ["iob2", "pubtator", "brat"])
def test_two_ids_stay_two(tmp_path: Path, name: str) -> None:
    ids = ["x|y", "x_y", " s", "s", "a\tb", "a b", "100%", "one|100%", "a\t100%", "a%09", "\t", "%09"]
    write = {"iob2": write_iob2, "pubtator": write_pubtator, "brat": write_brat}[name]
    write([Document(id_, "Ada ran.") for id_ in ids], tmp_path / "out")
    reading = read_corpus(tmp_path / "out", name if name != "iob2" else "columns")
    assert len({document.document_id for document in reading.documents}) == len(ids)
    assert not reading.rejects
