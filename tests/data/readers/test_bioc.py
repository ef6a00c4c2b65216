"""BioC as others write it: passages, sentences, relations, several locations, and files that are damaged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import detect, read_corpus
from rayner.data.schema import Document, Mention
from rayner.data.writers import write_bioc_json
from rayner.errors import CorpusError

XML = """<?xml version='1.0' encoding='UTF-8'?><!DOCTYPE collection SYSTEM 'BioC.dtd'>
<collection><source>PubTator</source><date></date><key>BioC.key</key>
<document><id>227508</id>
<passage><infon key="type">title</infon><offset>0</offset><text>Naloxone &amp; clonidine</text>
<annotation id="2"><infon key="MESH">D009270</infon><infon key="type">Chemical</infon>
<location offset="0" length="8"/><text>Naloxone</text></annotation></passage>
<passage><infon key="type">abstract</infon><offset>21</offset><text>In rats, NK-1 receptors.</text>
<annotation id="3"><infon key="identifier">-</infon><infon key="type">Gene</infon><infon key="note">x</infon>
<location offset="30" length="4"/><text>NK-1</text></annotation>
<annotation id="4"><infon key="type">Gene</infon>
<location offset="30" length="2"/><location offset="35" length="9"/><text>NK receptors</text></annotation>
<annotation id="5"><infon key="type">Species</infon>
<location offset="23" length="4"/><text>rats</text></annotation>
</passage><relation id="R0"><node refid="2" role=""/></relation></document></collection>
"""


def test_passages_are_joined_and_offsets_are_checked(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(XML, encoding="utf-8")
    assert detect(tmp_path) == "bioc"
    reading = read_corpus(tmp_path)
    mentions = (Mention(0, 8, "Chemical", "D009270"), Mention(30, 34, "Gene"))
    text = "Naloxone & clonidine\nIn rats, NK-1 receptors."
    assert reading.documents == [Document("227508", text, mentions)]
    assert reading.ignored == {"relation": 1, "infon note": 1}
    assert [reject.what for reject in reading.rejects] == [
        "a mention in 2 parts",
        "offsets 23 27 hold ' rat', not 'rats'",
    ]
    assert reading.rejects[1].hint.startswith("it is at 24 28")


def sentence(offset: int, text: str, *annotations: tuple[int, int]) -> dict[str, Any]:
    listed = [{"infons": {"type": "X"}, "locations": [{"offset": a, "length": n}]} for a, n in annotations]
    return {"offset": offset, "text": text, "annotations": listed}


def test_sentences_hold_the_text_where_passages_do_not(tmp_path: Path) -> None:
    passages = [
        {"offset": 5, "sentences": [sentence(5, "Ann ran. ", (5, 3)), sentence(14, "Bob sat.", (14, 3))]},
        {"offset": 100, "sentences": [sentence(100, "Eve", (100, 3))], "annotations": None},
    ]
    at_document = [{"infons": {"type": "Y"}, "text": "Eve", "locations": [{"offset": 100, "length": 3}]}]
    document = {"id": 7, "passages": passages, "annotations": at_document}
    (tmp_path / "a.json").write_text(json.dumps([{"documents": [document]}]))
    reading = read_corpus(tmp_path)
    (found,) = reading.documents
    assert found.text == "Ann ran. Bob sat.\nEve"
    assert found.sentences == ((0, 9), (9, 17), (18, 21))
    assert [(m.start, m.end, m.type) for m in found.mentions] == [
        (0, 3, "X"),
        (9, 12, "X"),
        (18, 21, "X"),
        (18, 21, "Y"),
    ]
    assert dict(reading.repaired) == {"space between passages made one line end": 1}


def test_annotations_of_sentences_are_read_where_the_passage_has_its_text_too(tmp_path: Path) -> None:
    parts = [sentence(5, "Ann ran.", (5, 3)), {**sentence(14, "Bob sat.", (14, 3)), "relations": [{}]}]
    # That of the first sentence is one of the passage as well.
    passage = {
        "offset": 5,
        "text": "Ann ran. Bob sat.",
        "sentences": parts,
        "annotations": parts[0]["annotations"],
    }
    (tmp_path / "a.json").write_text(json.dumps({"documents": [{"id": "a", "passages": [passage]}]}))
    reading = read_corpus(tmp_path)
    assert reading.documents == [
        Document("a", "Ann ran. Bob sat.", (Mention(0, 3, "X"), Mention(9, 12, "X")))
    ]
    assert dict(reading.ignored) == {"relation": 1, "sentence beside the text of its passage": 2}


def test_what_pubtator_3_exports(tmp_path: Path) -> None:
    passages = [sentence(0, "Ann ran", (0, 3))]
    (tmp_path / "a.json").write_text(
        json.dumps({"PubTator3": [{"_id": "7|None", "id": 7, "passages": passages}]})
    )
    assert read_corpus(tmp_path).documents == [Document("7", "Ann ran", (Mention(0, 3, "X"),))]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (XML[:700], r"a.xml:\d+: not XML"),
        ("<collection></collection>", "no documents in it"),
        ('{"documents": [{"passages": 3}]}', "not a document of BioC"),
        ('{"documents": [{"id": "a"}]}', "no field 'passages'"),
        ('{"passage": []}', "not a collection of BioC"),
        ("[" * 100_000, "not a collection of BioC"),
        (" ", "an empty file"),
        (
            '<!DOCTYPE c [<!ENTITY a "aaaaaaaaaa">'
            + "".join(
                f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghi", "bcdefghij", strict=True)
            )
            + "]><collection><document><id>&j;</id></document></collection>",
            "not XML",
        ),
    ],
)
def test_damaged_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(CorpusError, match=message):
        read_corpus(tmp_path / "a.xml", "bioc")


def test_an_annotation_that_is_none_is_rejected_alone(tmp_path: Path) -> None:
    passage = {**sentence(0, "Ann ran", (0, 3)), "infons": {}}
    passage["annotations"] += [{"locations": [{"offset": "far", "length": 1}]}, "Ann", {"locations": None}]
    passage["annotations"].append({"locations": [{"offset": math.inf, "length": 1}]})
    (tmp_path / "a.json").write_text(json.dumps({"documents": [{"id": "a", "passages": [passage]}]}))
    reading = read_corpus(tmp_path / "a.json")
    assert [m.type for d in reading.documents for m in d.mentions] == ["X"]
    assert len(reading.rejects) == 3
    # Such are terms of the whole document, as those by which NLM-Chem is indexed.
    assert reading.ignored == {"annotation without a place": 1}


def test_what_is_no_document_is_rejected_alone(tmp_path: Path) -> None:
    path, good = tmp_path / "x.json", {"id": "8", "passages": [{"offset": 0, "text": "Gout"}]}
    path.write_text(json.dumps({"documents": [None, good, "text"]}))
    reading = read_corpus(path)
    assert [document.document_id for document in reading.documents] == ["8"]
    assert [reject.what for reject in reading.rejects] == [
        "not a document of BioC: None is no object",
        "not a document of BioC: 'text' is no object",
    ]


@pytest.mark.parametrize("location", [{"offset": 0.5, "length": 4}, {"offset": 0, "length": 3.9}])
def test_fractions_of_a_character_are_no_offsets(tmp_path: Path, location: dict[str, float]) -> None:
    annotation = {"infons": {"type": "X"}, "locations": [location]}
    passages = [{"offset": 0, "text": "Gout", "annotations": [annotation]}]
    (tmp_path / "x.json").write_text(json.dumps({"documents": [{"id": "1", "passages": passages}]}))
    reading = read_corpus(tmp_path)
    assert [document.mentions for document in reading.documents] == [()]
    assert [("is no whole number" in reject.what) for reject in reading.rejects] == [True]


def test_several_ids_of_an_annotation_are_joined(tmp_path: Path) -> None:
    annotation = {"text": "Ann", "locations": [{"offset": 0, "length": 3}]}
    annotation |= {"infons": {"type": "X", "identifier": ["P1", None, "P2"]}}
    passage = {"offset": 0, "text": "Ann ran", "annotations": [annotation]}
    (tmp_path / "a.json").write_text(json.dumps({"documents": [{"id": 0, "passages": [passage]}]}))
    (document,) = read_corpus(tmp_path / "a.json").documents
    assert document.document_id == "0"
    assert [mention.entity_id for mention in document.mentions] == ["P1|P2"]
    infons = "".join(
        f'<infon key="{key}">{value}</infon>'
        for key, value in [("type", "X"), ("identifier", "P1"), ("identifier", "P2")]
    )
    (tmp_path / "a.xml").write_text(
        "<collection><document><id>a</id><passage><offset>0</offset><text>Ann ran</text><annotation>"
        f'{infons}<location offset="0" length="3"/><text>Ann</text></annotation></passage></document>'
        "</collection>"
    )
    (document,) = read_corpus(tmp_path / "a.xml").documents
    assert [(m.type, m.entity_id) for m in document.mentions] == [("X", "P1|P2")]


def test_what_we_write_is_known_however_long_its_first_document(tmp_path: Path) -> None:
    documents = [Document("a", "Ann ran. " * 10_000), Document("b", "Bob ran.")]
    write_bioc_json(documents, tmp_path / "a.json")
    assert detect(tmp_path) == "bioc"
    assert read_corpus(tmp_path).documents == documents


def test_sentences_are_of_all_passages_or_counted(tmp_path: Path) -> None:
    parts = {"offset": 6, "sentences": [sentence(6, "Ann ran. ", (6, 3)), sentence(15, "Bob sat.", (15, 3))]}
    empty = {"offset": 100, "text": ""}
    (tmp_path / "a.json").write_text(json.dumps({"documents": [{"id": "a", "passages": [parts, empty]}]}))
    assert read_corpus(tmp_path / "a.json").documents[0].sentences == ((0, 9), (9, 17))
    parts["sentences"].append(sentence(23, "", (15, 3)))
    (tmp_path / "a.json").write_text(json.dumps({"documents": [{"id": "a", "passages": [parts]}]}))
    (document,) = read_corpus(tmp_path / "a.json").documents
    assert (document.sentences, len(document.mentions)) == (((0, 9), (9, 17)), 3)
    parts["sentences"].pop()
    title = {"offset": 0, "text": "Title"}
    (tmp_path / "a.json").write_text(json.dumps({"documents": [{"id": "a", "passages": [title, parts]}]}))
    reading = read_corpus(tmp_path / "a.json")
    assert reading.documents[0].sentences is None
    assert reading.ignored == {"sentence beside passages that have none": 2}
