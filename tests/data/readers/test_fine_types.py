"""Readers of mentions with fine types: what they read, and what they say of lines that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayner.data.fine_types import ancestors, gold_types, spoken
from rayner.data.readers import read_corpus
from rayner.data.schema import Mention, documents_from_table, documents_to_table
from rayner.errors import CorpusError

UFET = {
    "annot_id": "a:1",
    "left_context_token": ["So", ","],
    "mention_span": "the old  singer",
    "right_context_token": ["sang", "."],
    "y_str": ["person", "artist", "person"],
}
FIGER = {
    "tokens": ["Ada", "Lovelace", "saw", "Paris"],
    "mentions": [
        {"start": 3, "end": 4, "labels": ["/location", "/location/city"]},
        {"start": 0, "end": 2, "labels": ["/person"]},
    ],
    "fileid": "f",
    "senid": 7,
}
TAB = "1\t4\tso the dog dog ran\t/other /other/animal\tHEAD|dog NON_HEAD|the"


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_ufet(tmp_path: Path) -> None:
    (document,) = read_corpus(lines(tmp_path / "a.json", UFET)).documents
    (mention,) = document.mentions
    assert (document.document_id, document.text) == ("a:1", "So , the old singer sang .")
    assert document.text[mention.start : mention.end] == "the old singer"
    assert mention.types == (("person", 1.0), ("artist", 1.0))
    assert mention.type == "mention"
    assert document.words is not None
    assert [document.text[a:b] for a, b in document.words] == document.text.split(" ")


def test_figer_has_several_mentions_a_line(tmp_path: Path) -> None:
    (document,) = read_corpus(lines(tmp_path / "a.json", FIGER)).documents
    assert document.document_id == "f:7"
    assert [(document.text[m.start : m.end], gold_types(m)) for m in document.mentions] == [
        ("Ada Lovelace", ("/person",)),
        ("Paris", ("/location", "/location/city")),
    ]


def test_ontonotes_tells_the_head(tmp_path: Path) -> None:
    (document,) = read_corpus(lines(tmp_path / "a.txt", TAB)).documents
    (mention,) = document.mentions
    assert document.text[mention.start : mention.end] == "the dog dog"
    assert mention.head == (11, 14)
    assert gold_types(mention) == ("/other", "/other/animal")
    assert list(documents_from_table(documents_to_table([document]))) == [document]


@pytest.mark.parametrize(
    ("name", "good", "bad", "what"),
    [
        ("a.jsonl", UFET, UFET | {"y_str": "person"}, "`y_str` is no list of strings"),
        ("a.jsonl", UFET, UFET | {"y_str": ["\ud800"]}, "half a surrogate pair"),
        ("a.jsonl", UFET, UFET | {"mention_span": " "}, "`mention_span` is no text"),
        ("a.jsonl", UFET, UFET | {"left_context_token": None}, "`left_context_token` is no list"),
        ("a.jsonl", UFET, "[1]", "not a JSON object"),
        ("a.jsonl", UFET, "{", "not JSON"),
        ("a.jsonl", FIGER, FIGER | {"tokens": []}, "without words"),
        ("a.jsonl", FIGER, FIGER | {"mentions": {}}, "`mentions` is no list"),
        ("a.jsonl", FIGER, FIGER | {"mentions": [3]}, "the mention 3 is no object"),
        (
            "a.jsonl",
            FIGER,
            FIGER | {"mentions": [{"start": 2, "end": 9, "labels": []}]},
            "words 2 to 9 of 4",
        ),
        (
            "a.jsonl",
            FIGER,
            FIGER | {"mentions": [{"start": True, "end": 2, "labels": []}]},
            "words True to 2",
        ),
        ("a.jsonl", FIGER, FIGER | {"mentions": [{"start": 0, "end": 1}]}, "`labels` is no list"),
        ("a.txt", TAB, "1\t4\tso the dog", "3 fields between tabs"),
        ("a.txt", TAB, "4\t4\tso the dog dog ran\t/other", "words 4 to 4 of 5"),
        ("a.txt", TAB, f"{'9' * 5000}\t4\tso the dog\t/other", "no numbers of words"),
    ],
)
def test_a_wrong_line_is_a_reject_by_its_number(
    tmp_path: Path, name: str, good: Any, bad: Any, what: str
) -> None:
    path = lines(tmp_path / name, good, bad, good)
    format = "ontonotes_fet" if name == "a.txt" else "ufet" if good is UFET else "figer"
    found = read_corpus(path, format)
    (reject,) = found.rejects
    assert reject.where == f"{path}:2"
    assert what in reject.what
    assert reject.hint
    assert found.documents


def test_a_file_of_wrong_lines_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"a\.txt:1: 1 field between tabs"):
        read_corpus(lines(tmp_path / "a.txt", "Ann ran."), "ontonotes_fet")


def test_gold_is_the_own_type_only_where_it_says_something() -> None:
    assert gold_types(Mention(0, 1, "PER")) == ("PER",)
    assert gold_types(Mention(0, 1, "mention")) == ()
    assert gold_types(Mention(0, 1, "PER", types=(("a", 1.0), ("a", 0.5)))) == ("a",)


def test_names_form_a_hierarchy() -> None:
    assert list(ancestors("/person/artist/singer")) == ["/person/artist", "/person"]
    assert list(ancestors("/person")) == list(ancestors("person")) == list(ancestors("/")) == []
    assert spoken("/person/soccer_player") == "person soccer player"
    assert spoken("/") == "/"


def test_a_line_that_is_wrong_does_not_make_a_file_of_them_a_text(tmp_path: Path) -> None:
    found = read_corpus(lines(tmp_path / "a.txt", TAB.replace("1", "one"), TAB, TAB, TAB))
    assert (len(found.documents), [reject.where[-8:] for reject in found.rejects]) == (3, ["/a.txt:1"])
    text = "Scores\t1\tof the game\t2 : 1\nand more\nand more\n"
    (document,) = read_corpus(lines(tmp_path / "b.txt", text.strip())).documents
    assert document.text == text
