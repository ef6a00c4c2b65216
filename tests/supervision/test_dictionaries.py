from __future__ import annotations

import pickle
import random
import time
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import LabelSettings
from rayner.data.schema import UNKNOWN, Document, Mention
from rayner.data.words import find_words
from rayner.errors import CorpusError
from rayner.supervision.dictionaries import Dictionary, Name, label_document
from rayner.supervision.dictionary_files import read_dictionary


def found(text: str, *names: tuple[str, str | None], **settings: str) -> list[tuple[str, str]]:
    dictionary = Dictionary([Name(*name) for name in names], LabelSettings.model_validate(settings))
    return [(text[m.start : m.end], m.type) for m in dictionary.find(text)]


def test_the_longest_name_wins_at_each_place_from_left_to_right() -> None:
    names = [("renal failure", "D"), ("acute renal failure", "D"), ("failure to thrive", "X"), ("acute", "A")]
    assert found("acute renal failure to thrive", *names) == [("acute renal failure", "D")]
    assert found("renal failure to thrive", *names) == [("renal failure", "D")]
    assert found("an acute failure to thrive", *names) == [("acute", "A"), ("failure to thrive", "X")]


def test_names_end_at_words() -> None:
    assert found("scarlet cars; a car-park, Carla", ("car", "C"), case="exact") == [("car", "C")]
    assert found("cocaine-induced", ("cocaine", "C")) == [("cocaine", "C")]


@pytest.mark.parametrize(
    "name", ["( R)-alpha - methylhistamine", "(R)-alpha-methylhistamine", "(R) - alpha-  methylhistamine"]
)
def test_the_space_around_words_does_not_count(name: str) -> None:
    for text in ("of (R)-alpha-methylhistamine .", "of ( R ) - alpha -\nmethylhistamine"):
        assert [t for _, t in found(text, (name, "C"))] == ["C"]
    assert found("methyl histamine", ("methylhistamine", "C")) == []


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("exact", ["MS", "cat scan"]),
        ("ignore", ["MS", "ms", "cat scan", "Cat Scan"]),
        ("acronyms", ["MS", "cat scan", "Cat Scan"]),
    ],
)
def test_the_case_rule(case: str, expected: list[str]) -> None:
    text = "MS ms cat scan Cat Scan"
    assert [t for t, _ in found(text, ("MS", "D"), ("cat scan", "P"), case=case)] == expected


def test_a_long_name_in_capitals_is_no_acronym() -> None:
    assert found("Paracetamol", ("PARACETAMOL", "C"), case="acronyms") == [("Paracetamol", "C")]


@pytest.mark.parametrize(("ambiguity", "expected"), [("drop", []), ("first", ["B"]), ("both", ["B", "A"])])
def test_the_ambiguity_rule(ambiguity: str, expected: list[str]) -> None:
    names = [("lead", "B"), ("Lead", "A"), ("lead", "B")]
    assert [t for _, t in found("the LEAD", *names, ambiguity=ambiguity)] == expected


def test_a_dropped_name_still_holds_its_place() -> None:
    names = [("lead acetate", "A"), ("lead acetate", "B"), ("acetate", "C")]
    assert found("lead acetate", *names, ambiguity="drop") == []


def test_the_spelling_as_written_decides_between_types() -> None:
    names = [("AIDS", "Disease"), ("aids", "Device")]
    assert found("AIDS and aids and Aids", *names) == [
        ("AIDS", "Disease"),
        ("aids", "Device"),
        ("Aids", "Device"),
    ]


def test_a_phrase_hides_shorter_names_but_no_label() -> None:
    names = [("failure", "D"), ("Heart failure", "D"), ("market failure", None), ("heart failure", None)]
    assert found("market failure, heart failure", *names) == [("heart failure", "D")]


def test_composed_and_decomposed_letters_are_the_same() -> None:
    assert found("cafe\u0301", ("caf\u00e9", "P")) == [("cafe\u0301", "P")]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_an_acronym_is_as_long_however_its_letters_are_written(form: Literal["NFC", "NFD"]) -> None:
    names = [(unicodedata.normalize(form, "ÉÀÜÖÊ"), "X")]
    assert [text for text, _ in found("ÉÀÜÖÊ éàüöê", *names, case="acronyms")] == ["ÉÀÜÖÊ"]


def test_scripts_without_spaces() -> None:
    assert found("我在北京大学读书", ("北京大学", "ORG"), ("北京", "GPE")) == [("北京大学", "ORG")]


def test_an_entity_is_kept_where_the_name_has_only_one() -> None:
    names = [Name("lead", "C", "1"), Name("Lead", "C", "1"), Name("gold", "C", "2"), Name("gold", "C", "3")]
    mentions = Dictionary(names, LabelSettings(case="ignore")).find("lead gold")
    assert [m.entity_id for m in mentions] == ["1", None]


def test_labels_replace_mentions_and_say_what_they_cover() -> None:
    dictionary = Dictionary([Name("gold", "C"), Name("gout", "D")], LabelSettings())
    document = Document("d", "gold", (Mention(0, 1, "X"),), language="en")
    labelled = label_document(document, dictionary)
    assert labelled == Document("d", "gold", (Mention(0, 4, "C"),), language="en", annotated_types=("C", "D"))


@pytest.mark.parametrize("ambiguity", ["drop", "first"])
def test_phrases_and_names_that_are_dropped_may_be_mentions(ambiguity: str) -> None:
    names = [Name("gold", "C"), Name("gold salt", None), Name("lead", "C"), Name("lead", "D")]
    settings = LabelSettings.model_validate({"phrases": "unknown", "ambiguity": ambiguity})
    labelled = label_document(Document("d", "Gold, gold salt, lead."), Dictionary(names, settings))
    wanted = [(0, 4, "C"), (6, 15, UNKNOWN), (17, 21, UNKNOWN if ambiguity == "drop" else "C")]
    assert [(m.start, m.end, m.type) for m in labelled.mentions] == wanted
    assert labelled.annotated_types == ("C", "D")


def test_characters_of_regular_expressions_are_characters() -> None:
    assert found("a.b (x|y)* [z]+", (".*", "A"), ("(x|y)*", "B"), ("[z]+", "C"), ("a.b", "D")) == [
        ("a.b", "D"),
        ("(x|y)*", "B"),
        ("[z]+", "C"),
    ]


def test_a_name_of_ten_thousand_words_can_be_found_and_sent() -> None:
    name = "word " * 10_000
    dictionary = pickle.loads(
        pickle.dumps(Dictionary([Name(name, "L"), Name("x" * 10_000, "X")], LabelSettings()))
    )
    assert [m.type for m in dictionary.find(f"{name} {'x' * 10_000}")] == ["L", "X"]


def test_names_without_a_word_are_left_out() -> None:
    assert len(Dictionary([Name("\u200b", "A"), Name(" ", "B")], LabelSettings())) == 0


words = st.sampled_from(["a", "b", "A", "-", "é", "北"])
texts = st.lists(words, max_size=12).map(lambda w: " ".join(w))
names = st.lists(
    st.builds(Name, st.lists(words, min_size=1, max_size=3).map(" ".join), st.sampled_from("XY"))
)
rules = st.builds(
    LabelSettings,
    case=st.sampled_from(["exact", "ignore", "acronyms"]),
    ambiguity=st.sampled_from(["drop", "first", "both"]),
)


@given(texts, names, rules)
def test_every_mention_is_a_name_and_none_overlap(text: str, names: list[Name], rule: LabelSettings) -> None:
    mentions = Dictionary(names, rule).find(text)
    spelled = {("".join(n.name.split()).casefold(), n.type) for n in names}
    edges = find_words(text)
    for mention in mentions:
        assert ("".join(text[mention.start : mention.end].split()).casefold(), mention.type) in spelled
        assert mention.start in {s for s, _ in edges}
        assert mention.end in {e for _, e in edges}
    spans = sorted({(m.start, m.end) for m in mentions})
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


@given(texts, names)
def test_exact_matching_is_its_definition(text: str, names: list[Name]) -> None:
    spans = find_words(text)
    words = [text[s:e] for s, e in spans]
    known = {tuple(n.name.split()) for n in names}
    expected, place = [], 0
    while place < len(words):
        widths = [w for w in range(1, len(words) - place + 1) if tuple(words[place : place + w]) in known]
        if widths:
            expected.append((spans[place][0], spans[place + max(widths) - 1][1]))
        place += max(widths, default=1)
    mentions = Dictionary(names, LabelSettings(case="exact", ambiguity="first")).find(text)
    assert [(m.start, m.end) for m in mentions] == expected


def test_five_hundred_abstracts_take_about_a_second() -> None:
    rng = random.Random(0)
    vocabulary = ["".join(rng.choices("abcdefgh", k=5)) for _ in range(5000)]
    names = [Name(" ".join(rng.choices(vocabulary, k=rng.randint(1, 4))), "T") for _ in range(2500)]
    texts = [" ".join(rng.choices(vocabulary, k=220)) for _ in range(500)]
    dictionary = Dictionary(names, LabelSettings())
    started = time.thread_time()
    assert sum(len(dictionary.find(text)) for text in texts) > 1000
    assert time.thread_time() - started < 5


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_dictionary_formats(tmp_path: Path) -> None:
    lead, gout = Name("lead", "C"), Name("gout", "D")
    assert read_dictionary(write(tmp_path, "a.txt", "C\tlead\r\n\nD\tgout\n")) == [lead, gout]
    assert read_dictionary(write(tmp_path, "b.txt", "\ufefflead\nC\n"), "C") == [lead, Name("C", "C")]
    assert read_dictionary(write(tmp_path, "g.txt", "C\tlead\t7\nD\tgout\t\n")) == [
        Name("lead", "C", "7"),
        gout,
    ]
    csv = 'name,type,entity_id,aliases\n"lead, red",C,7,minium|\ngout,D,,\n'
    expected = [Name("lead, red", "C", "7"), Name("minium", "C", "7"), gout]
    assert read_dictionary(write(tmp_path, "c.csv", csv)) == expected
    # With quotes around a cell, as spreadsheets write one that has a comma or a quote.
    rows = 'Type\tName\nC\tlead\nD\t5" gun\nD\t"6"" gun"\nC\t"lead, red"\nD\t"gun" 7"\n'
    names = [name.name for name in read_dictionary(write(tmp_path, "d.tsv", rows))]
    assert names == ["lead", '5" gun', '6" gun', "lead, red", '"gun" 7"']
    rows = '{"name": "lead", "type": "C", "entity_id": "7", "aliases": ["Pb"]}\n\n{"name": "gout"}\n'
    expected = [Name("lead", "C", "7"), Name("Pb", "C", "7"), gout]
    assert read_dictionary(write(tmp_path, "e.jsonl", rows), "D") == expected
    row = '{"name": "lead", "type": "C", "aliases": "Pb|minium"}\n'
    expected = [lead, Name("Pb", "C"), Name("minium", "C")]
    assert read_dictionary(write(tmp_path, "f.jsonl", row)) == expected


@pytest.mark.parametrize("content", ["\n\nname,type\nlead,C\n", " ,\nname,type\nlead,C\n"])
def test_the_header_is_the_first_line_that_is_not_blank(tmp_path: Path, content: str) -> None:
    assert read_dictionary(write(tmp_path, "a.csv", content)) == [Name("lead", "C")]


def test_other_columns_have_the_names_of_a_knowledge_base(tmp_path: Path) -> None:
    expected = [Name("lead", "C", "7"), Name("Pb", "C", "7")]
    csv = "ID,name,Synonyms,category\n7,lead,Pb,C\n"
    assert read_dictionary(write(tmp_path, "a.csv", csv), "X") == expected
    row = '{"id": 7, "name": "lead", "synonyms": ["Pb"], "category": "C"}\n'
    assert read_dictionary(write(tmp_path, "a.jsonl", row), "X") == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'name,type,id\nlead,C," Q1"\ngout,D, \n'),
        ("a.tsv", "name\ttype\tid\nlead\tC\tQ1 \ngout\tD\t \n"),
        (
            "a.jsonl",
            '{"name": "lead", "type": "C", "id": " Q1\\n"}\n{"name": "gout", "type": "D", "id": " "}\n',
        ),
    ],
)
def test_white_space_is_no_part_of_an_id(tmp_path: Path, name: str, content: str) -> None:
    assert read_dictionary(write(tmp_path, name, content)) == [Name("lead", "C", "Q1"), Name("gout", "D")]


def test_a_column_without_a_name_is_none_of_these(tmp_path: Path) -> None:
    assert read_dictionary(write(tmp_path, "a.csv", "name,,\nlead,x,y\n"), "C") == [Name("lead", "C")]


def test_a_tab_behind_a_name_alone_makes_it_no_type(tmp_path: Path) -> None:
    expected = [Name("lead", "C"), Name("gout", "C")]
    assert read_dictionary(write(tmp_path, "a.txt", "lead\t\ngout\t\t\n"), "C") == expected


@pytest.mark.parametrize("header", ["", "type\tname\n"])
def test_cells_between_tabs_may_be_in_quotes_with_and_without_a_header(tmp_path: Path, header: str) -> None:
    rows = 'PER\t"Ada"\n"PER"\t"5"" gun"\n\nPER\t6" gun\nPER\t"gun" 7"\n'
    names = read_dictionary(write(tmp_path, "a.tsv", header + rows))
    assert names == [Name(name, "PER") for name in ("Ada", '5" gun', '6" gun', '"gun" 7"')]


@pytest.mark.parametrize("first", ["NAME", "Name"])
def test_a_type_of_names_is_no_header(tmp_path: Path, first: str) -> None:
    path = write(tmp_path, "a.txt", f"{first}\tJohn Smith\n{first}\tMary\nDATE\tMonday\n")
    found = [(name.name, name.type) for name in read_dictionary(path)]
    assert found == [("John Smith", first), ("Mary", first), ("Monday", "DATE")]


def test_a_header_may_be_in_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", '"name"\t"type"\t"note"\nMary\tPER\tof old\n')
    assert [(name.name, name.type) for name in read_dictionary(path)] == [("Mary", "PER")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "holds no name"),
        ("a.txt", "\n \n", "holds no name"),
        ("a.txt", "C\tlead\ngout\n", r"a\.txt:2: a name without a type; write TYPE<TAB>name.*--default-type"),
        (
            "a.txt",
            "C\tlead\ngout\t\n",
            r"a\.txt:2: no name in the second cell; write TYPE<TAB>name; .*--default-type",
        ),
        ("a.txt", "C\tlead\n\t\t\nD\t\t7\n", r"a\.txt:3: no name in the second cell; write TYPE<TAB>name"),
        (
            "a.txt",
            "C\tlead\t7\tmetal\n",
            r"a\.txt:1: 4 cells; write TYPE<TAB>name, or TYPE<TAB>name<TAB>id, or",
        ),
        # A tab would be a character of the name there.
        (
            "a.csv",
            "name,type\nlead,C\ngout,\n",
            r"a\.csv:3: a name without a type; give it a `type`; rayner corpus label",
        ),
        ("a.csv", "name,name,type\nlead,Pb,C\n", r"a\.csv:1: 2 columns 'name'; give each a name of its own"),
        (
            "a.jsonl",
            '{"name": "gout"}\n',
            r"a\.jsonl:1: a name without a type; give it a `type`; rayner corpus label",
        ),
        ("a.txt", "C\tlead\nC\tgr\xfcn\n".encode("latin1"), r"a\.txt:2: .*not UTF-8"),
        ("a.txt", "C\tlead\n".encode("utf-16"), "UTF-8|utf-16"),
        ("a.csv", "type,label\nC,lead\n", "no column `name`; name .* first line; they are type, label$"),
        ("a.csv", "Name;Type\nlead;C\n", "no column `name`; save the table with commas, for `;` parts"),
        ("a.csv", "", "no column `name`; name the columns in the first line$"),
        ("a.csv", b"PK\x03\x04\x14\x00\x00\xc0", r"not UTF-8; it is a ZIP archive, as spreadsheets are"),
        ("a b.parquet", "", r"rayner kb convert \S*'\S*a b\.parquet' --out 'a b\.jsonl'$"),
        ("a.csv", "\ntype,label\nC,lead\n", r"a\.csv:2: no column `name`"),
        ("a.csv", "name,type\nlead,C,,\nacid, folic,C\n", r"a\.csv:3: 3 cells under 2 columns; quote"),
        ("a.jsonl", '{"name": "lead", "type": "C"}\n[1]\n', r"a\.jsonl:2"),
        ("a.jsonl", '{"name": 3, "type": "C"}\n', r"a\.jsonl:1"),
        ("a.jsonl", '{"name": "a", "type": "C", "aliases": 3}\n', r"a\.jsonl:1"),
        ("a.jsonl", "[" * 100_000, r"a\.jsonl:1"),
        ("a.jsonl", r'{"name": "a\ud800", "type": "C"}', r"a\.jsonl:1: half a surrogate pair in 'a"),
        ("a.jsonl", r'{"name": "a", "type": "\ud800"}', r"a\.jsonl:1: half .*; write the character as UTF-8"),
        ("a.jsonl", r'{"name": "a", "type": "C", "id": "\ud800"}', r"a\.jsonl:1: half a surrogate pair"),
        ("a.jsonl", r'{"name": "a", "type": "C", "aliases": "\ud800"}', r"a\.jsonl:1: half a surrogate pair"),
    ],
)
def test_broken_dictionaries_say_where(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as raised:
        read_dictionary(write(tmp_path, name, content))
    assert raised.value.where.startswith(str(tmp_path / name))


def test_a_name_in_quotes_may_hold_a_line_end_and_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text('name,type\n"New\nYork",LOC\nOslo,LOC\n')
    names = read_dictionary(path)
    assert len(names) == 2
    assert Dictionary(names, LabelSettings()).find("In New York.")[0].start == 3
    path.write_text('name\n"Ada\nBob\nCid\n')
    with pytest.raises(CorpusError, match=r"names\.csv:2: .*, at line 4; close the quotes"):
        read_dictionary(path, "PER")


def test_a_knowledge_base_in_parquet_is_no_dictionary_but_becomes_one(tmp_path: Path) -> None:
    path = tmp_path / "kb.parquet"
    with pytest.raises(CorpusError, match=r"is Parquet, .*: rayner kb convert .*kb\.parquet --out kb\.jsonl"):
        read_dictionary(path)


def test_a_phrase_that_is_written_otherwise_holds_its_place() -> None:
    names = [Name("Black Sea", None), Name("sea", "LOC")]
    assert Dictionary(names, LabelSettings(case="ignore")).find("the black sea") == []


def test_a_name_of_five_capitals_is_an_acronym() -> None:
    dictionary = Dictionary([Name("CRISP", "X")], LabelSettings(case="acronyms"))
    assert [len(dictionary.find(text)) for text in ("CRISP", "crisp")] == [1, 0]
