"""Knowledge bases as people have them: each fault has its line and its hint, and nothing is lost."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayner.data.json_lines import OF_AN_ARRAY
from rayner.data.knowledge_bases import Columns, read_knowledge_base, write_knowledge_base
from rayner.data.schema import Entity
from rayner.errors import InputError


@pytest.fixture
def error(tmp_path):
    """The error of a file with this content."""

    def read(name: str, content: bytes, **options) -> InputError:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError) as raised:
            read_knowledge_base(path, **options)
        assert raised.value.where.startswith(str(path))
        assert raised.value.hint
        return raised.value

    return read


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt", "a.obo", "a.parquet", "a.json"])
@pytest.mark.parametrize("content", [b"", b" \n\n"])
def test_an_empty_file(error, name, content):
    assert str(error(name, content))


@pytest.mark.parametrize("number", ["[" * 100_000, "1" * 5000], ids=["deep", "long"])
def test_json_that_python_cannot_read(error, number):
    found = error("a.json", b'{"data": {"0": {"entity_id": %s}}}' % number.encode(), format="esappmod")
    assert "JSON" in found.what


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.tsv"])
def test_another_encoding_names_the_line(error, name):
    found = error(name, "id\tname\n1\tGicht\n2\tFußpilz\n".encode("latin-1"))
    assert found.where.endswith(":3")
    assert "UTF-8" in found.what


def test_a_missing_column_names_the_nearest(error):
    found = error("a.csv", b"id,nmae,x\n1,gout,\n")
    assert found.where.endswith(":1")
    assert "`name`" in found.what
    assert "'nmae'" in found.hint
    assert "--name-column" in found.hint
    found = error("a.csv", b"id,name,synonyms\n1,gout,\n", columns=Columns(aliases="synonym"))
    assert "'synonym'" in found.what
    assert "nearest is 'synonyms'" in found.hint
    found = error("a.jsonl", b'{"id": 1, "name": "gout", "other": []}\n', columns=Columns(aliases="othr"))
    assert "nearest is 'other'" in found.hint


def test_a_column_that_is_there_twice_is_not_read_once(error, tmp_path):
    found = error("a.csv", b"id,name,synonyms,note,note,synonyms\n1,gout,podagra,,,arthritis\n")
    assert found.where.endswith("a.csv:1")
    assert found.what == "2 columns 'synonyms'"
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([["1"], ["gout"], ["podagra"]], names=["id", "name", "name"]), path)
    assert error("a.parquet", path.read_bytes()).what == "2 columns 'name'"
    (tmp_path / "b.csv").write_text("id,name,note,note\n1,gout,,\n")
    assert read_knowledge_base(tmp_path / "b.csv").entities == [Entity("1", "gout")]


@pytest.mark.parametrize(
    ("name", "row", "what", "hint"),
    [
        ("a.csv", b"2\n", "1 cell under 2 columns", "fill the row up"),
        ("a.csv", b"2,fir, silver\n", "3 cells under 2 columns", "quote"),
        # No quote parts cells there (5" gun), so that quotes would not help.
        ("a.tsv", b"2\n", "1 cell under 2 columns", "fill the row up"),
        ("a.tsv", b"2\tfir\tsilver\n", "3 cells under 2 columns", "write a space for a tab within a cell"),
    ],
)
def test_a_row_of_too_few_or_too_many_cells_says_what_would_help(tmp_path, name, row, what, hint):
    header = b"id,name\n1,gout\n"
    (tmp_path / name).write_bytes((header if name == "a.csv" else header.replace(b",", b"\t")) + row)
    (reject,) = read_knowledge_base(tmp_path / name).rejects
    assert reject.what == what
    assert reject.hint.startswith(hint)


@pytest.mark.parametrize("name", ["a.csv", "a.txt"])
def test_blank_lines_before_a_header_are_none(error, tmp_path, name):
    (tmp_path / name).write_text("\n  \nid,name\n\n1,gout\n2\n")
    read = read_knowledge_base(tmp_path / name)
    assert (read.entities, [reject.where for reject in read.rejects]) == (
        [Entity("1", "gout")],
        [f"{tmp_path / name}:6"],
    )
    assert error("b.csv", b"\n\nid,nmae\n1,gout\n").where.endswith("b.csv:3")
    assert "empty" in error("c.csv", "\ufeff\n".encode()).what


def test_a_table_with_semicolons_is_told_as_such(error):
    for content in (b"id;name\n1;gout\n", b"code;name;aliases,with comma\n1;gout;\n"):
        found = error("a.csv", content)
        assert (found.what[:3], found.hint) == ("`;`", "save the table with commas or tabs")


def test_a_quote_that_nobody_closes_does_not_swallow_the_rest(error):
    found = error("a.csv", b'id,name\n0,a\n1,"gout\n2,asthma\n3,b\n')
    assert "quote" in found.hint
    assert found.where.endswith("a.csv:3")
    assert found.what == "not CSV (unexpected end of data, at line 5)"
    assert error("b.csv", b'id,"name\n0,a\n').where.endswith("b.csv:1")


def test_a_file_that_is_no_knowledge_base(error):
    assert "--format" in error("a.bin", b"once upon a time\n").hint
    for array in (b'[\n {"entity_id": "1", "name": "a"}\n]\n', b'[{"entity_id": "1", "name": "a"}]\n'):
        assert error("a.json", array).hint == error("a.jsonl", array).hint == OF_AN_ARRAY
    assert "--format" in error("a.txt", b"[Term]\nid: A:1\nname: root\n").hint
    assert "Parquet" in error("a.parquet", b"PAR1 or not\n").what
    assert error("a.json", b'{"data": {"0": {"entity_name": "x",\n "entity_id": }}}').where.endswith(":2")
    assert "data" in error("a.json", b'{"data": [{"entity_name": 1}]}', format="esappmod").what
    pytest.importorskip("pronto")
    assert error("a.obo", b"format-version: 1.2\n\n[Term]\nid: A:1\nnme root\n").where.endswith(":5")
    assert error("a.csv", b"id,name\n1,gout\n", format="obo").what == "not OBO"


def test_json_is_not_obo_whatever_its_name(error):
    for content in (b'{"graphs": [', b"<?xml version='1.0'?><rdf:RDF/>"):
        assert error("a.obo", content).what == "not OBO but JSON or XML"


def test_obo_may_begin_with_a_comment(tmp_path):
    pytest.importorskip("pronto")
    path = tmp_path / "a.obo"
    path.write_text("! made by hand\nformat-version: 1.2\n\n[Term]\n! the first\nid: A:1\nname: gout\n")
    base = read_knowledge_base(path)
    assert (base.entities[0].name, base.places) == ("gout", [f"{path}:6"])


def test_types_of_obo_synonyms_may_be_undeclared(tmp_path):
    pytest.importorskip("pronto")
    path = tmp_path / "a.obo"
    lines = ['synonym: "a \\"b\\" c" EXACT ABBREVIATION [x:1]', 'synonym: "d" RELATED layperson []']
    path.write_text("\n".join(["format-version: 1.2\n\n[Term]\nid: A:1\nname: gout", *lines, ""]))
    assert read_knowledge_base(path).entities[0].aliases == ('a "b" c', "d")


def test_what_is_not_read_of_obo_may_be_of_any_form(tmp_path):
    pytest.importorskip("pronto")
    path = tmp_path / "a.obo"
    lines = [
        'exact_synonym: "a" []',
        'synonym: "b" []',
        'synonym: "c [d] \\"e\\"" EXACT []',
        "creation_date: Mon Feb 3",
        "heard_of_by: nobody",
        "",
        "[Term]",
        "id: A:2",
        "name: old",
        "is_obsolete: True",
    ]
    path.write_text("\n".join(["format-version: 1.0\n\n[Term]\nid: A:1\nname: gout", *lines, ""]))
    base = read_knowledge_base(path)
    assert base.entities[0].aliases == ("a", "b", 'c [d] "e"')
    assert base.ignored == {"obsolete term": 1}


def test_obo_without_its_library_says_what_to_install(error, monkeypatch):
    monkeypatch.setitem(sys.modules, "pronto", None)
    assert error("a.obo", b"format-version: 1.2\n").hint == "pip install pronto"


def test_bad_rows_are_rejected_and_the_rest_is_kept(tmp_path):
    path = tmp_path / "kb.jsonl"
    rows = [
        '{"entity_id": "1", "name": "gout"}',
        '{"entity_id": "2", "name": " "}',
        '{"entity_id": "", "name": "x"}',
        '{"entity_id": "3", "name": 4}',
        '{"entity_id": "3", "name": "x", "aliases": [null]}',
        '{"entity_id": "3", "name": "\\ud800"}',
        '{"entity_id": "\\ud800", "name": "x", "aliases": 7, "\\ud800": 1}',
        '{"entity_id": true, "name": "x"}',
        '{"name": "x"}',
        "[]",
        "{",
        "[" * 100_000,
        '{"entity_id": 9, "name": "asthma", "aliases": ["", "x ", "x", "asthma"]}',
    ]
    path.write_text("\n".join(rows))
    base = read_knowledge_base(path)
    assert base.entities == [Entity("1", "gout"), Entity("9", "asthma", ("x",))]
    assert [reject.where for reject in base.rejects] == [f"{path}:{n}" for n in range(2, 13)]
    assert [reject.kind for reject in base.rejects][:2] == ["empty name", "empty id"]
    assert all(reject.what and reject.hint for reject in base.rejects)
    assert base.repaired["duplicate alias dropped"] == 2
    assert base.repaired["empty alias dropped"] == 1
    assert json.dumps([base.reject_rows(), base.counts()], ensure_ascii=False).encode()


def test_a_row_of_another_width_is_rejected(tmp_path):
    path = tmp_path / "kb.csv"
    path.write_text('id,name\n1,a\n"2\n",b\n3,c,d\n4,e\n')
    base = read_knowledge_base(path)
    assert [entity.entity_id for entity in base.entities] == ["1", "2", "4"]
    assert base.places[2] == f"{path}:6"
    assert [reject.where for reject in base.rejects] == [f"{path}:5"]


def test_a_long_name_stays_whole(tmp_path):
    name = "x" * 10_000
    (tmp_path / "kb.csv").write_text(f"id,name\n1,{name}\n")
    assert read_knowledge_base(tmp_path / "kb.csv").entities == [Entity("1", name)]


def test_a_limit_of_aliases_is_an_error(error, tmp_path):
    content = b'{"id": "1", "name": "a", "aliases": ["b", "c", "d"]}\n'
    found = error("kb.jsonl", content, max_aliases=2)
    assert "'1' has 3 aliases" in found.what
    assert "--max-aliases" in found.hint
    assert len(read_knowledge_base(tmp_path / "kb.jsonl", max_aliases=3).entities[0].aliases) == 3


def test_paths_and_formats_that_are_none(tmp_path):
    for path, options in [(tmp_path, {}), (tmp_path / "no", {}), (tmp_path / "no", {"format": "columns"})]:
        with pytest.raises(InputError, match=str(path)):
            read_knowledge_base(path, **options)
    with pytest.raises(InputError, match="one of auto, parquet"):
        read_knowledge_base(tmp_path / "no", format="xml")
    with pytest.raises(InputError, match=r"\.parquet or \.jsonl"):
        write_knowledge_base([], tmp_path / "kb.xlsx")


def test_columns_that_are_named_of_a_format_without_any_are_refused(error) -> None:
    found = error("a.txt", b"Concept\tPreferred\nC1\tgout\n", columns=Columns(entity_id="Concept"))
    assert found.what == "--id-column names a column, and pairs has none with a name"
    assert "--format columns" in found.hint
