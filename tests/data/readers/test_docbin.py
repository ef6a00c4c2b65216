"""Reading spaCy's DocBin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import detect, read_corpus
from rayner.data.schema import Document
from rayner.data.writers import write_docbin
from rayner.errors import CorpusError, InputError


@pytest.fixture
def spacy() -> Any:
    return pytest.importorskip("spacy", reason="the extra spacy is not installed")


def written(spacy: Any, path: Path, *docs: Any) -> Path:
    spacy.tokens.DocBin(store_user_data=True, docs=docs).to_disk(path)
    return path


def test_what_a_pipeline_of_spacy_makes(tmp_path: Path, spacy: Any) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    doc = nlp("Ada Lovelace wrote.  She lived in London.\n")
    person = spacy.tokens.Span(doc, 0, 2, label="PER", kb_id="Q7259")
    doc.set_ents([person, spacy.tokens.Span(doc, 8, 9, label="LOC")])
    doc.spans["sc"] = [person, spacy.tokens.Span(doc, 1, 2, label="PER")]
    doc.spans["other"] = [person]
    doc.cats["letter"] = 1.0
    path = written(spacy, tmp_path / "train.spacy", doc, nlp("Nothing."))
    assert detect(path) == "docbin"
    reading = read_corpus(path)
    first, second = reading.documents
    assert (first.document_id, second.document_id) == ("train:1", "train:2")
    assert first.text == doc.text
    found = [(first.text[m.start : m.end], m.type, m.entity_id) for m in first.mentions]
    assert found == [
        ("Ada Lovelace", "PER", "Q7259"),
        ("Lovelace", "PER", None),
        ("London", "LOC", None),
    ]
    assert first.sentences is not None
    assert [first.text[a:b] for a, b in first.sentences] == ["Ada Lovelace wrote.", "She lived in London."]
    assert first.words is not None
    assert [first.text[a:b] for a, b in first.words][-3:] == ["in", "London", "."]
    assert not second.mentions
    assert reading.ignored == {"spans other": 1, "categories": 1, "document that nobody annotated": 1}


def test_nothing_found_is_told_from_nobody_having_looked(tmp_path: Path, spacy: Any) -> None:
    nlp = spacy.blank("en")
    found_none, of_spans, empty = nlp("Ada."), nlp("Ada."), nlp("")
    found_none.ents = []
    of_spans.spans["sc"] = []
    reading = read_corpus(written(spacy, tmp_path / "a.spacy", found_none, of_spans, nlp("Ada."), empty))
    assert len(reading.documents) == 4
    assert reading.ignored == {"document that nobody annotated": 1}


def test_a_mention_that_only_one_of_both_has_linked_is_one(tmp_path: Path, spacy: Any) -> None:
    doc = spacy.blank("en")("Ada met Ada.")
    bare, other = (spacy.tokens.Span(doc, at, at + 1, label="PER") for at in (0, 2))
    doc.set_ents([spacy.tokens.Span(doc, 0, 1, label="PER", kb_id="Q7259"), other])
    doc.spans["sc"] = [bare, other]
    (document,) = read_corpus(written(spacy, tmp_path / "a.spacy", doc)).documents
    assert [(m.start, m.entity_id) for m in document.mentions] == [(0, "Q7259"), (8, None)]


def test_what_is_none_is_told(tmp_path: Path, spacy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(spacy, tmp_path / "a.spacy", spacy.blank("en")("Ada"))
    (tmp_path / "b.spacy").write_bytes(path.read_bytes()[:-4])
    (tmp_path / "c.spacy").write_bytes(b"Ada")
    for name in ("b", "c"):
        with pytest.raises(CorpusError, match=rf"{name}\.spacy: no DocBin of spaCy"):
            read_corpus(tmp_path / f"{name}.spacy")
    monkeypatch.setitem(sys.modules, "spacy.tokens", None)
    with pytest.raises(InputError, match=r"a\.spacy: needs spaCy.*pip install 'rayner\[spacy\]'"):
        read_corpus(path)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [("Bob", ((0, 3),)), ("Bob ran . Ann", ((0, 10), (10, 13))), ("a b", ((0, 1), (1, 3)))],
)
def test_sentences_that_do_not_come_back_are_counted(
    tmp_path: Path, text: str, sentences: tuple[tuple[int, int], ...]
) -> None:
    pytest.importorskip("spacy")
    written = write_docbin([Document("a", text, sentences=sentences)], tmp_path)
    (document,) = read_corpus(tmp_path).documents
    assert document.sentences != sentences
    assert written.dropped.total() == 1


def test_a_sentence_ends_where_it_ended(tmp_path: Path) -> None:
    pytest.importorskip("spacy")
    written = write_docbin(
        [Document("a", "Ada ran\u200b\n\nBob sat", sentences=((0, 8), (10, 17)))], tmp_path
    )
    (document,) = read_corpus(tmp_path).documents
    assert document.sentences == ((0, 8), (10, 17))
    assert "sentences" not in written.dropped
