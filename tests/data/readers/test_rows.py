"""JSON lines, Parquet and plain text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayner.data.readers import read_corpus
from rayner.data.schema import (
    MENTION_TYPE,
    UNTYPED,
    Candidate,
    Document,
    Mention,
    documents_from_table,
    documents_to_table,
)
from rayner.errors import CorpusError


def test_binder_rows(tmp_path: Path) -> None:
    row = {
        "id": 7,
        "text": "Ann ran",
        "entity_types": ["PER"],
        "entity_start_chars": [0],
        "entity_end_chars": [3],
        "word_start_chars": [0, 4],
        "word_end_chars": [3, 7],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps(row) + "\n")
    (document,) = read_corpus(path).documents
    assert document.document_id == "7"
    assert document.words == ((0, 3), (4, 7))
    assert [(m.start, m.end, m.type) for m in document.mentions] == [(0, 3, "PER")]


def test_a_mention_may_have_no_type(tmp_path: Path) -> None:
    rows = [{"start": 0, "end": 3}, {"start": 4, "end": 7, "type": None, "entity_id": "Q1"}]
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "Ann ran", "mentions": rows}) + "\n")
    spans = [{"start": 0, "end": 3}, {"start": 4, "end": 7}]
    table = pa.table({"document_id": ["a"], "text": ["Ann ran"], "mentions": [spans]})
    pq.write_table(table, tmp_path / "b.parquet")
    for name in ("a.jsonl", "b.parquet"):
        (document,) = read_corpus(tmp_path / name).documents
        assert [(m.start, m.end, m.type) for m in document.mentions] == [(0, 3, UNTYPED), (4, 7, UNTYPED)]


@pytest.mark.parametrize(
    "row",
    [
        "{",
        "[]",
        '{"document_id": "x"}',
        '{"text": 3}',
        '{"text": "a", "document_id": ""}',
        '{"text": "a", "document_id": 1.5}',
        '{"text": "a", "document_id": true}',
        '{"text": "a\\ud800"}',
        '{"text": "a", "mentions": [{"start": 0}]}',
        '{"text": "a", "mentions": 5}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "label": "X"}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": null, "label": "X"}]}',
        '{"text": "a", "mentions": [{"start": "0", "end": 1, "type": "X"}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": 3}]}',
        '{"text": "a", "words": [{"start": 0, "end": 9}]}',
        '{"text": "a", "words": [0]}',
        '{"text": "a", "group": 4}',
        '{"text": "a", "annotated_types": 4}',
        '{"text": "a", "annotated_types": "PER"}',
        '{"text": "a", "annotated_types": [1]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": "X", "head": {"start": "0", "end": 1}}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": "X", "head": {"start": 0, "end": 9}}]}',
        '{"text": "", "mentions": [{"start": 0, "end": 1, "type": "X", "types": [{"name": 3, "score": 1}]}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": "X",'
        ' "candidates": [{"entity_id": "Q1"}]}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": "X", "name": 3}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": "X",'
        ' "candidates": [{"entity_id": "Q1", "score": 1, "name": 3}]}]}',
        '{"text": "a", "mentions": [{"start": 0, "end": 1, "type": "X",'
        ' "candidates": [{"entity_id": "Q1", "score": "high"}]}]}',
        '{"text": "a", "entity_types": ["X"], "entity_start_chars": [0], "entity_end_chars": []}',
        '{"text": "a", "entity_types": ["X"]}',
        '{"text": "a", "document_id": "\\ud800"}',
        '{"text": "a", "contexts": [{"text": "\\ud800"}]}',
        '{"text": "a", "contexts": [{"text": "b", "start": 3000000000}]}',
        '{"text": "a", "contexts": [{"text": "b", "end": true}]}',
        '{"text": "a", "contexts": [{"text": "b", "score": 1' + "0" * 400 + "}]}",
    ],
)
def test_rows_that_are_no_documents_are_rejected_by_line(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' + row + "\n")
    reading = read_corpus(path)
    assert [d.document_id for d in reading.documents] == ["a:1"]
    (reject,) = reading.rejects
    assert reject.where == f"{path}:2"
    assert reject.what
    assert json.dumps(reject.to_row(), ensure_ascii=False).encode()


def test_fine_types_without_scores_are_shown_how_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    mention = '{"start": 0, "end": 1, "type": "X", "types": ["/person"]}'
    path.write_text(f'{{"text": "a", "mentions": [{mention}]}}\n')
    with pytest.raises(CorpusError, match=r"'/person' among the fine types .*, not \{\"name\""):
        read_corpus(path)


def test_whole_numbers_are_scores(tmp_path: Path) -> None:
    large = 123456789
    mention = {"start": 0, "end": 1, "type": "X", "score": large, "margin": -large, "probability": 1}
    mention |= {"types": [{"name": "x", "score": large}], "candidates": [{"entity_id": "q", "score": large}]}
    row = {"text": "a", "mentions": [mention], "contexts": [{"text": "b", "score": large, "start": 0}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (document,) = read_corpus(tmp_path).documents
    (stored,) = documents_from_table(documents_to_table([document]))
    assert stored.mentions[0].score == pytest.approx(large)
    assert stored.mentions[0].candidates[0].score == pytest.approx(large)
    assert stored.contexts[0].score == pytest.approx(large)


def test_fields_that_are_not_ours_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"text": "Ann", "tags": [[0, 3, "PER"]]}, {"text": "Bob", "tags": [], "id": "b"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_corpus(path)
    assert len(reading.documents) == 2
    assert reading.ignored == {"field tags": 2}
    mention = {"start": 0, "end": 3, "type": "PER"}
    path.write_text(json.dumps({"text": "Ann", "mentions": [mention | {"kb_id": "Q1"}, mention]}))
    assert read_corpus(path).ignored == {"field mentions.kb_id": 1}


def test_mentions_outside_the_text_are_rejected_one_by_one(tmp_path: Path) -> None:
    spans = [(0, 2), (0, 3), (-1, 1), (1, 1), (2, 1), (0, 1)]
    mentions = [{"start": start, "end": end, "type": "X" if end != 1 else "\u00a0"} for start, end in spans]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"document_id": "d", "text": "ab", "mentions": mentions}))
    reading = read_corpus(path)
    assert [(m.start, m.end) for m in reading.documents[0].mentions] == [(0, 2)]
    assert len(reading.rejects) == 5
    assert {r.document_id for r in reading.rejects} == {"d"}


def test_a_mention_of_no_character_is_not_said_to_be_outside_the_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    mention = {"start": 4, "end": 4, "type": "X"}
    path.write_text(json.dumps({"document_id": "d", "text": "twelve chars", "mentions": [mention]}))
    (reject,) = read_corpus(path).rejects
    assert reject.what == "mention [4, 4) without a character"


def test_parquet_of_others(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"document_id": ["x", None], "text": ["a", "b"], "more": [1, 2]}), path)
    reading = read_corpus(path)
    assert [d.document_id for d in reading.documents] == ["x", "a:1"]
    assert reading.ignored == {"field more": 2}
    pq.write_table(pa.table({"id": ["x"], "text": ["a"]}), path)
    with pytest.raises(CorpusError, match="no column `document_id` among id, text"):
        read_corpus(path)
    pq.write_table(pa.table({"document_id": ["x"], "tokens": [["a"]], "ner_tags": [["O"]]}), path)
    with pytest.raises(CorpusError, match="words with tags are read by `rayner corpus convert"):
        read_corpus(path, format="parquet")
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(CorpusError, match=r"a\.parquet: not a Parquet file"):
        read_corpus(path)


def test_parquet_of_annotate_is_told_where_the_texts_are(tmp_path: Path) -> None:
    row = {"document_id": "a", "mentions": [], "windows": 1, "model_version": "v", "source": "a.jsonl:1"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "documents-00000-00000.parquet")
    with pytest.raises(CorpusError, match=r"no column `text` .*; `rayner annotate --jsonl` .* _jsonl"):
        read_corpus(tmp_path, format="parquet")


def test_parquet_of_mentions_without_the_later_fields(tmp_path: Path) -> None:
    linked = Mention(0, 2, "X", "Q1", candidates=(Candidate("Q1", 0.5),))
    table = documents_to_table([Document("d", "ab", (linked,))])
    added = ("margin", "probability", "name", "candidates")
    named = pa.list_(pa.struct([("name", pa.string()), ("score", pa.float32())]))
    older = pa.struct([*(field for field in MENTION_TYPE if field.name not in added), ("candidates", named)])
    schema = table.schema.set(table.schema.get_field_index("mentions"), pa.field("mentions", pa.list_(older)))
    rows = table.to_pylist()
    for mention in rows[0]["mentions"]:
        del mention["margin"], mention["probability"], mention["name"]
        mention["candidates"] = [{"name": "Q1", "score": 0.5}]
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "a.parquet")
    reading = read_corpus(tmp_path / "a.parquet")
    assert reading.documents == [Document("d", "ab", (linked,))]
    assert not reading.ignored


@pytest.mark.parametrize("name", ["margin", "probability"])
def test_a_margin_is_a_number(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.jsonl"
    mention = {"start": 0, "end": 1, "type": "X", name: "high"}
    rows = [{"document_id": "d", "text": "ab", "mentions": [mention]}, {"document_id": "e", "text": "ab"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    (reject,) = read_corpus(path).rejects
    assert f"{name} 'high' is not a number" in reject.what


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e300", f"-1{'0' * 40}"])
@pytest.mark.parametrize(
    "field",
    [
        *('"score": {}', '"margin": {}', '"probability": {}', '"uncertainty": {}'),
        *('"types": [{{"name": "a", "score": {}}}]', '"candidates": [{{"entity_id": "Q1", "score": {}}}]'),
    ],
)
def test_scores_are_numbers_that_json_and_float32_have(tmp_path: Path, field: str, value: str) -> None:
    mention = f'{{"start": 0, "end": 1, "type": "X", {field.format(value)}}}'
    context = f'{{"text": "c", "score": {value}, "before": true}}'
    good = '{"document_id": "good", "text": "ab"}'
    bad = [
        f'{{"document_id": "d", "text": "ab", "{name}": [{row}]}}'
        for name, row in (("mentions", mention), ("contexts", context))
    ]
    (tmp_path / "a.jsonl").write_text("\n".join([*bad, good]))
    reading = read_corpus(tmp_path / "a.jsonl")
    assert [document.document_id for document in reading.documents] == ["good"]
    assert all("finite" in reject.what for reject in reading.rejects)
    assert len(reading.rejects) == 2


def test_plain_text_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"One.\r\n\r\nTwo.\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfThree"))
    (tmp_path / "c.txt.gz").write_bytes(b"no gzip")
    (tmp_path / "README.txt").write_text("what this is")
    reading = read_corpus(tmp_path)
    assert {d.document_id: d.text for d in reading.documents} == {"a": "One.\r\n\r\nTwo.\n", "b": "Three"}
    assert reading.repaired.total() == 1
    (reject,) = reading.rejects
    assert "broken gzip" in reject.what


@pytest.mark.parametrize(
    ("field", "value", "what", "hint"),
    [
        ("mentions", {"start": 0}, "`mentions` is {'start': 0}, no list", 'write "mentions": [{"start": 0'),
        ("mentions", "", "`mentions` is '', no list", 'write "mentions": ['),
        ("mentions", [[0, 3, "X"]], "`mentions` holds [0, 3, 'X']", 'write {"start": 0, "end": 3, "type"'),
        ("words", [[0, 3]], "`words` holds [0, 3]", 'write {"start": 0, "end": 3}'),
        ("sentences", ["abc"], "`sentences` holds 'abc'", 'write {"start": 0, "end": 3}'),
        (
            "mentions",
            [{"start": 0, "end": 3, "type": "X", "head": [0, 1]}],
            "`head` is [0, 1]",
            'write "head": {"start"',
        ),
    ],
)
def test_lists_of_another_form_are_told_how_to_be_written(
    tmp_path: Path, field: str, value: object, what: str, hint: str
) -> None:
    rows = [{"text": "Ada ran."}, {"text": "Ada ran.", field: value}]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (reject,) = read_corpus(tmp_path).rejects
    assert reject.what.endswith(what)
    assert reject.hint.startswith(hint)


@pytest.mark.parametrize(
    ("given", "entity_id"),
    [
        ({"entity_ids": "T1|T2"}, "T1|T2"),
        ({"entity_ids": ["T1", "T2"]}, "T1|T2"),
        ({"entity_id": ["T1", "T2"]}, "T1|T2"),
        ({"entity_id": []}, None),
        ({"entity_id": None, "entity_ids": None}, None),
        ({"entity_id": "", "entity_ids": ["T1", None, "", "T1", 9606]}, "T1|9606"),
        ({"entity_id": [], "entity_ids": "T1|T2"}, None),
        ({"entity_id": ["T1"], "entity_ids": None}, "T1"),
    ],
)
def test_a_mention_of_a_document_may_have_several_ids(
    tmp_path: Path, given: dict[str, object], entity_id: str | None
) -> None:
    mention = {"start": 0, "end": 3, "type": "PER", **given}
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": "Ada ran.", "mentions": [mention]}) + "\n")
    reading = read_corpus(tmp_path)
    assert [m.entity_id for m in reading.documents[0].mentions] == [entity_id]


def test_ids_beside_an_id_are_counted_and_others_named(tmp_path: Path) -> None:
    mention = {"start": 0, "end": 3, "type": "PER"}
    ids = [{"entity_id": "T1", "entity_ids": ["T1", "T2"]}, {"entity_ids": {"T1": 1}}]
    rows = [{"text": f"Ada ran {n}.", "mentions": [mention | one]} for n, one in enumerate(ids)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_corpus(tmp_path)
    assert dict(reading.ignored) == {"field mentions.entity_ids": 1}
    assert ["entity_id {'T1': 1} is not a string" in reject.what for reject in reading.rejects] == [True]


def test_fields_of_our_name_in_binder_rows_are_counted(tmp_path: Path) -> None:
    row = {"text": "Ada ran.", "entity_types": [], "entity_start_chars": [], "entity_end_chars": []}
    (tmp_path / "x.jsonl").write_text(json.dumps(row | {"sentences": 2, "contexts": "biography"}) + "\n")
    reading = read_corpus(tmp_path)
    assert len(reading.documents) == 1
    assert dict(reading.ignored) == {"field sentences": 1, "field contexts": 1}


@pytest.mark.parametrize("name", ["mentions", "words", "sentences", "contexts"])
def test_a_binder_row_with_a_fault_may_have_a_field_of_our_name(tmp_path: Path, name: str) -> None:
    row = {"text": "Ada ran.", "entity_types": ["PER"], "entity_start_chars": [0], name: 1}
    (tmp_path / "x.jsonl").write_text('{"text": "good"}\n' + json.dumps(row) + "\n")
    (reject,) = read_corpus(tmp_path).rejects
    assert reject.what == "not a row of the document schema: missing field 'entity_end_chars'"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"entity_end_chars": []},
            "1 in `entity_types`, 1 in `entity_start_chars`, 0 in `entity_end_chars`",
        ),
        ({"entity_ids": ["Q1", "Q2"]}, "1 in `entity_types`, 2 in `entity_ids`"),
        (
            {"word_start_chars": [0, 4], "word_end_chars": [3]},
            "2 in `word_start_chars`, 1 in `word_end_chars`",
        ),
    ],
)
def test_lists_of_a_binder_row_that_differ_in_length_are_named(
    tmp_path: Path, changed: dict[str, list[int]], told: str
) -> None:
    row = {"text": "Ada ran.", "entity_types": ["PER"], "entity_start_chars": [0], "entity_end_chars": [3]}
    (tmp_path / "x.jsonl").write_text('{"text": "good"}\n' + json.dumps(row | changed) + "\n")
    (reject,) = read_corpus(tmp_path).rejects
    assert reject.what.endswith(f": lists of different lengths: {told}")


def test_a_string_that_is_not_utf8_costs_its_row_alone(tmp_path: Path) -> None:
    texts = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\4\0\0\0\x08\0\0\0"), pa.py_buffer(b"ab\xffdgood")
    )
    pq.write_table(pa.table({"document_id": ["a", "b"], "text": texts}), tmp_path / "a.parquet")
    reading = read_corpus(tmp_path / "a.parquet")
    assert [document.text for document in reading.documents] == ["good"]
    (reject,) = reading.rejects
    assert (reject.where, reject.what) == (f"{tmp_path}/a.parquet:row 0", "byte 0xff is not UTF-8")
    pq.write_table(
        pa.table({"tokens": [["x"], ["y"]], "tags": [["O"], ["B-X"]], "id": texts}), tmp_path / "a.parquet"
    )
    reading = read_corpus(tmp_path / "a.parquet")
    assert [document.document_id for document in reading.documents] == ["good"]
    assert [reject.what for reject in reading.rejects] == ["byte 0xff is not UTF-8"]


def test_an_id_of_null_gives_way_to_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"document_id": null, "id": "real", "text": "x"}')
    assert read_corpus(tmp_path).documents == [Document("real", "x")]
