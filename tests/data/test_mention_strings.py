"""Mentions without texts: each format, what is rejected, and the counts of the public corpora."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import (
    MOST_CHARACTERS,
    MentionString,
    ids_of,
    ids_within,
    is_right,
    name_of,
    normal_form,
    unanswerable,
)
from rayner.errors import CorpusError


def test_rows_with_several_entities_and_none(tmp_path: Path) -> None:
    path = tmp_path / "mentions.jsonl"
    rows = [
        {"mention": " IIS ", "entity_id": "7"},
        {"mention": "nothing", "entity_id": None},
        {"mention": "no one", "entity_id": "-1"},
        {"mention": "nobody", "entity_id": ["CUI-less"]},
        {"mention": "Spring", "entity_id": ["1", 2], "type": "Lib"},
    ]
    path.write_text("\ufeff" + "\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    reading = read_mention_strings(path)
    assert reading.mentions == [
        MentionString("IIS", ("7",)),
        MentionString("nothing", ()),
        MentionString("no one", ()),
        MentionString("nobody", ()),
        MentionString("Spring", ("1", "2"), "Lib"),
    ]
    assert reading.repaired == {"byte-order mark removed": 1}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not JSON"),
        ("[1]", "no `mention`"),
        ('{"mention": "x"}', "no `entity_id`"),
        ('{"mention": "x", "entity_ids": ["1"]}', "`entity_ids` is no string"),
        ('{"mention": "x", "entity_id": null, "entity_ids": ["1"]}', "`entity_ids` is no string"),
        ('{"mention": "  ", "entity_id": "1"}', "no text"),
        ('{"mention": 3, "entity_id": "1"}', "no text"),
        ('{"mention": "x", "entity_id": 1.5}', "no string"),
        ('{"mention": "x", "entity_id": ["1", null]}', "no string"),
        ('{"mention": "\\ud800 x", "entity_id": "1"}', "half a surrogate pair"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_row_that_is_no_mention_is_rejected_with_its_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "mentions.jsonl"
    path.write_text('{"mention": "a", "entity_id": "1"}\n' + line + "\n")
    reading = read_mention_strings(path)
    assert len(reading.mentions) == 1
    assert [(r.where, what in r.what) for r in reading.rejects] == [(f"{path}:2", True)]
    path.write_text(line + "\n")
    with pytest.raises(CorpusError, match=r"mentions\.jsonl"):
        read_mention_strings(path, "mentions")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("names.csv", "mention,entity_id\nAtaxia,D1\n", "no known format"),
        # One line too short, and the file is a text.
        ("names.txt", "1\tAtaxia\tD1\n2\tgout\n", "no mention with an entity id in it"),
        ("notes.jsonl", '{"text": "Ataxia"}\n', "no mention with an entity id in it"),
    ],
)
def test_a_file_of_no_mentions_is_told_how_they_are_written(
    tmp_path: Path, name: str, content: str, what: str
) -> None:
    (tmp_path / name).write_text(content)
    hint = r'; write \{"mention": "...", "entity_id": "..."\} on each line, or DOCUMENT<TAB>MENTION<TAB>ID$'
    with pytest.raises(CorpusError, match=f"{what}.*{hint}"):
        read_mention_strings(tmp_path / name)


@pytest.mark.parametrize("id_", ["D1", "MESH:D1|OMIM:2", "C50.9", "EFO_0000616", "sw-17"])
def test_lines_of_document_mention_and_id_are_known(tmp_path: Path, id_: str) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text(f"1\tAtaxia\t{id_}\n2\tgout\t-1\n")
    found = read_mention_strings(path).mentions
    assert [(one.text, one.entity_ids) for one in found] == [("Ataxia", tuple(id_.split("|"))), ("gout", ())]


@pytest.mark.parametrize("name", ["pairs.txt", "pairs.tsv"])
def test_pairs_whose_ids_have_no_digit_are_read_by_the_name_of_their_format(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text("1\tngnix\tsw-nginx\n\n2\tapache2\tsw apache\n")
    with pytest.raises(CorpusError, match="ID; of ids without a digit, name the format: pairs"):
        read_mention_strings(path)
    found = read_mention_strings(path, "pairs").mentions
    assert [one.entity_ids for one in found] == [("sw-nginx",), ("sw apache",)]


def test_white_space_around_ids_is_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "mentions.jsonl"
    rows = [{"mention": "oak", "entity_id": " T04 "}, {"mention": "elm", "entity_id": ["T05 ", " "]}]
    path.write_text("\n".join(map(json.dumps, rows)))
    reading = read_mention_strings(path)
    assert reading.mentions == [MentionString("oak", ("T04",))]
    assert [reject.where for reject in reading.rejects] == [f"{path}:2"]


def test_a_mention_is_the_same_however_its_marks_are_written(tmp_path: Path) -> None:
    path = tmp_path / "mentions.jsonl"
    path.write_text(
        "\n".join(json.dumps({"mention": m, "entity_id": "1"}) for m in ("caf\u00e9", "cafe\u0301"))
    )
    one, other = read_mention_strings(path).mentions
    assert one == other == MentionString("caf\u00e9", ("1",))


@pytest.mark.parametrize("text", ["café", "Bệnh  viêm\tphổi", "데이터", "oak"])
def test_letters_and_their_marks_are_one_however_they_are_written(text: str) -> None:
    apart = unicodedata.normalize("NFD", text)
    assert normal_form(apart) == normal_form(text) == " ".join(text.split())
    assert normal_form("ﬁ ²") == "ﬁ ²"


def test_what_no_composition_makes_short_enough_is_not_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks out of order are sorted in the square of their number, while nothing else runs."""
    apart = unicodedata.normalize("NFD", "\u1f82")
    assert len(apart) == 4
    assert unanswerable(f" {apart * MOST_CHARACTERS}\n") is None
    assert unanswerable("a  " * (MOST_CHARACTERS // 2)) is None

    def composed(text: str) -> str:
        raise AssertionError(f"{len(text)} characters are composed")

    monkeypatch.setattr("rayner.data.mention_strings.composed", composed)
    told = f"longer than {MOST_CHARACTERS} characters"
    assert unanswerable("a" + "\u0301" * 1_000 + "\u0323" * 1_000) == told


def test_esappmod_with_lists_single_mentions_and_nil(tmp_path: Path) -> None:
    path = tmp_path / "infer.json"
    rows = {
        "0": {"mentions": ["a", "b\n"], "entity_id": 4},
        "1": {"mention": "c", "entity_id": 0},
        "2": {"mention": "d"},
        "3": {"entity_id": 4},
    }
    path.write_text(json.dumps({"label": "entity_id", "data": rows}))
    reading = read_mention_strings(path)
    assert [(m.text, m.entity_ids) for m in reading.mentions] == [("a", ("4",)), ("b", ("4",)), ("c", ())]
    assert [reject.where for reject in reading.rejects] == [f"{path}:data.2", f"{path}:data.3"]


def test_mentions_of_documents_are_those_of_the_types_that_have_an_id(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    lines = [
        "1|t|Skin  tumour and IIS",
        "1|a|",
        "1\t0\t12\tSkin  tumour\tDisease\tD1|D2",
        "1\t0\t4\tSkin\tDisease\t-1",
        "1\t17\t20\tIIS\tSoftware\t7",
    ]
    path.write_text("\n".join(lines) + "\n")
    reading = read_mention_strings(path, types=["Disease"])
    assert {mention.sentence for mention in reading.mentions} == {None}
    read = read_mention_strings(path, types=["Disease"], sentences=True).mentions
    assert all(mention.text in (mention.sentence or "") for mention in read)
    assert [replace(mention, sentence=None) for mention in read] == reading.mentions
    assert reading.mentions == [MentionString("Skin tumour", ("D1", "D2"), "Disease")]
    assert reading.ignored["mention without an entity id"] == 1
    assert reading.ignored["mention of another type"] == 1
    with pytest.raises(CorpusError, match="no mention of"):
        read_mention_strings(path, types=["Gene"])


def test_several_ids_in_one_string_wait_for_the_knowledge_base(tmp_path: Path) -> None:
    path = tmp_path / "mentions.jsonl"
    path.write_text('{"mention": "C and D", "entity_ids": "C++|D1", "type": "Language"}\n')
    [mention] = read_mention_strings(path).mentions
    assert mention.type == "Language"
    assert mention.parted_for({"C++": "C++"}.get).entity_ids == ("C++", "D1")


def test_ids_of_a_field() -> None:
    assert ids_of("D1|D2+MESH:D3") == ("D1", "D2", "MESH:D3")
    assert ids_of("-1") == ids_of(" ") == ()
    known = {"C++": "C++", "a|b": "a|b", "C": "C"}.get
    assert ids_of(" C++", known) == ("C++",)
    assert ids_of("C++|D1+a|b", known) == ("C++", "D1", "a", "b")
    assert ids_of("a|b", known) == ("a|b",)
    assert ids_of("-|C+D", known) == ("C", "D")
    # Of an id that the knowledge base lacks, no part is taken for another entity.
    for written in ("C++", "C+", "+C", "C + "):
        assert ids_of(written, {"C": "C"}.get) == (written.strip(),)
    assert ids_of("C++|C", {"C": "C"}.get) == ("C++", "C")
    assert ids_of("A|-|B") == ("A", "B")


def test_commas_part_ids_that_all_have_an_entity() -> None:
    known = {"D1": "D1", "D2": "D2", "Paris": "Paris", "D1;D2": "D1;D2"}.get
    assert ids_of("D1,D2|D2; D1", known) == ("D1", "D2", "D2", "D1")
    assert ids_of("D1;D2", known) == ("D1;D2",)
    for written in ("Paris,_Texas", "D1,", "D1,D9"):
        assert ids_of(written, known) == (written,)
    assert ids_of("D1,D2") == ("D1,D2",)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.json: no such file"):
        read_mention_strings(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("path", "types", "mentions", "strings", "composite"),
    [
        ("esappmod/train.json", (), 4525, 4460, 0),
        ("ncbi-normalization-pairs/train_data.txt", (), 5932, 1779, 145),
        ("bc5cdr-pubtator/CDR_TrainingSet.PubTator.txt", ("Disease",), 4150, 1488, 94),
    ],
)
def test_counts_of_the_corpora(
    corpora: Path, path: str, types: tuple[str, ...], mentions: int, strings: int, composite: int
) -> None:
    found = read_mention_strings(corpora / path, types=types).mentions
    assert len(found) == mentions
    assert len({mention.text for mention in found}) == strings
    assert sum(len(mention.entity_ids) > 1 for mention in found) == composite


def test_mentions_of_documents_have_the_long_forms_that_these_explain(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    lines = ["1|t|Skin tumour (ST) and ST", "1|a|", "1\t21\t23\tST\tDisease\tD1", "", "2|t|ST", "2|a|"]
    path.write_text("\n".join([*lines, "2\t0\t2\tST\tDisease\tD1"]) + "\n")
    assert [m.text for m in read_mention_strings(path).mentions] == ["ST", "ST"]
    assert [m.text for m in read_mention_strings(path, abbreviations=True).mentions] == ["Skin tumour", "ST"]


@pytest.mark.parametrize(
    ("answer", "ids", "right"),
    [
        ("a", ["a", "b"], True),
        ("a|b", ["b", "a"], True),
        ("a|c", ["a", "b"], False),
        ("a|c", ["a|c"], True),
        ("c", ["a"], False),
        ("c|a|b", ["a|b", "c"], True),
        ("a|b|c", ["a", "a|b", "b|c"], True),
        ("c|a|b", ["a", "c"], False),
        ("c|a|b", ["a|b"], False),
        (None, ["a"], False),
    ],
)
def test_an_answer_of_several_entities_is_right_where_each_is(
    answer: str | None, ids: list[str], right: bool
) -> None:
    assert is_right(answer, ids) is right


def test_the_name_of_several_entities_is_that_of_each() -> None:
    names = {"a": "Alpha", "b": "Beta", "a|b": "Whole"}
    assert [name_of(answer, names) for answer in ("a", "b|a", "a|b", "x", "a|x", "x|a|b", "c|a|b")] == [
        "Alpha",
        "Beta | Alpha",
        "Whole",
        "",
        "Alpha",
        "Whole",
        "Whole",
    ]
    assert name_of("c|d|e", {"c": "Gamma", "d|e": "Delta"}) == "Gamma | Delta"


def test_an_id_may_hold_the_mark_between_ids() -> None:
    assert ids_within("c|d|e") == {"c", "d", "e", "c|d", "d|e", "c|d|e"}


@pytest.mark.parametrize(
    "row", [{"mention": "data", "entity_id": "1"}, {"mention": "x", "entity_id": "1", "type": "data"}]
)
def test_a_mention_may_be_called_data(tmp_path: Path, row: dict[str, str]) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(map(json.dumps, [row, {"mention": "java", "entity_id": "3"}])))
    assert [m.text for m in read_mention_strings(path).mentions] == [row["mention"], "java"]
