"""Readers of what annotation tools export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import detect, read_corpus
from rayner.data.readers.base import Reading
from rayner.errors import CorpusError

TEXT = "Ada \U0001f600 saw Oslo."
PRODIGY = {
    "text": TEXT,
    "_task_hash": 5,
    "spans": [
        {"start": 0, "end": 3, "label": "PER", "token_start": 0},
        {"start": 10, "end": 14, "label": "LOC"},
    ],
    "tokens": [
        {"text": "Ada", "start": 0, "end": 3, "id": 0},
        {"text": "saw", "start": 6, "end": 9, "id": 1},
    ],
    "answer": "accept",
}
DOCCANO = {"id": 7, "text": TEXT, "label": [[0, 3, "PER"], [10, 14, "LOC"]], "Comments": []}
ENTITIES = [
    {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 3},
    {"id": 2, "label": "LOC", "start_offset": 10, "end_offset": 14},
]
RELATIONS = {"id": 7, "text": TEXT, "entities": ENTITIES, "relations": [{"from_id": 1, "to_id": 2}]}
# A browser counts the smiling face as two.
MARKED = [
    {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]},
    {"start": 11, "end": 15, "text": "Oslo", "labels": ["LOC"]},
]
RESULT = [{"type": "labels", "id": str(number), "value": value} for number, value in enumerate(MARKED)]
TASK = {"id": 7, "annotations": [{"id": 1, "result": RESULT, "was_cancelled": False}], "data": {"text": TEXT}}
MIN = {"id": 7, "text": TEXT, "ner": MARKED, "annotator": 1, "annotation_id": 1, "lead_time": 2.5}
GLINER = {"tokenized_text": ["Ada", "Lovelace", "saw", "Oslo"], "ner": [[3, 3, "LOC"], [0, 1, "PER"]]}


def read(path: Path, *rows: Any, array: bool = False) -> Reading:
    text = json.dumps(rows, indent=2) if array else "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text)
    return read_corpus(path)


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(
    ("format", "row"),
    [
        ("prodigy", PRODIGY),
        ("doccano", DOCCANO),
        ("doccano", RELATIONS),
        ("label_studio", TASK),
        ("label_studio", MIN),
    ],
)
def test_mentions_of_a_text(tmp_path: Path, format: str, row: dict[str, Any], array: bool) -> None:
    reading = read(tmp_path / "export.json", row, row | {"id": 8}, array=array)
    assert detect(tmp_path / "export.json") == format
    assert not reading.rejects
    first, _ = reading.documents
    assert first.text == TEXT
    assert first.document_id == ("export:1" if format == "prodigy" else "7")
    assert [(m.start, m.end, m.type) for m in first.mentions] == [(0, 3, "PER"), (10, 14, "LOC")]


@pytest.mark.parametrize("name", ["kb_id", "entity_id"])
def test_entities_are_read_and_other_fields_of_a_span_counted(tmp_path: Path, name: str) -> None:
    of_prodigy = {"start": 0, "end": 3, "label": "PER", "token_start": 0, "token_end": 0}
    of_doccano = {"id": 1, "start_offset": 0, "end_offset": 3, "label": "PER"}
    for field, given, end in (("spans", of_prodigy, "end"), ("entities", of_doccano, "end_offset")):
        spans = [given | {name: "Q1"}, given | {name: None, end: 2}]
        spans += [given | {name: 7, end: 1, "source": "a model"}]
        reading = read(tmp_path / "a.jsonl", {"text": "Ada saw", field: spans})
        assert [m.entity_id for m in reading.documents[0].mentions] == ["Q1", None, "7"]
        assert reading.ignored == {f"field {field}.source": 1}
        spans = [given, given | {name: "Q1"}, given | {"kb_id": "", name: "Q1"}]
        reading = read(tmp_path / "a.jsonl", {"text": "Ada saw", field: spans})
        assert [m.entity_id for m in reading.documents[0].mentions] == ["Q1"]
        assert reading.repaired == {"mention given twice": 2}


@pytest.mark.parametrize("array", [False, True])
def test_gliner_counts_words_to_the_last(tmp_path: Path, array: bool) -> None:
    (document,) = read(tmp_path / "pile.json", GLINER, array=array).documents
    found = [(document.text[m.start : m.end], m.type) for m in document.mentions]
    assert found == [("Ada Lovelace", "PER"), ("Oslo", "LOC")]
    assert document.words == ((0, 3), (4, 12), (13, 16), (17, 21))


def test_only_what_was_accepted_is_read_of_prodigy(tmp_path: Path) -> None:
    answers = [PRODIGY | {"answer": answer} for answer in ("reject", "accept", "ignore")]
    reading = read(tmp_path / "a.jsonl", *answers, {"text": TEXT, "meta": {"source": "x"}})
    assert len(reading.documents) == 2
    assert reading.documents[0].words == ((0, 3), (6, 9))
    assert reading.documents[1].words is None
    ignored = {"row with the answer reject": 1, "row with the answer ignore": 1, "field meta": 1}
    assert reading.ignored == ignored


@pytest.mark.parametrize(
    "token",
    ["Ada", {"start": 0}, {"start": 3, "end": 999}, {"start": True, "end": 3}, {"start": 0, "end": 3}],
)
def test_tokens_that_are_none_are_found_in_the_text(tmp_path: Path, token: Any) -> None:
    row = PRODIGY | {"tokens": [*PRODIGY["tokens"], token]}
    (document,) = read(tmp_path / "a.jsonl", row).documents
    assert document.words is None
    assert len(document.mentions) == 2


def test_offsets_of_a_browser_are_told(tmp_path: Path) -> None:
    assert read(tmp_path / "a.json", TASK, array=True).repaired == {"offsets that count UTF-16 units": 1}


def test_one_annotation_of_each_task_is_taken(tmp_path: Path) -> None:
    own = {"id": 1, "result": RESULT[:1]}
    cancelled, truth = own | {"was_cancelled": True}, {"result": RESULT, "ground_truth": True}
    other = {"type": "choices", "value": {"choices": ["good"]}}
    rows = [
        TASK | {"annotations": [own, truth]},
        TASK | {"id": 8, "annotations": [cancelled, {"result": [*RESULT[:1], other]}]},
        TASK | {"id": 9, "annotations": [cancelled], "predictions": [{"result": RESULT}]},
        TASK | {"id": 10, "annotations": []},
    ]
    reading = read(tmp_path / "a.json", *rows, array=True)
    assert [(d.document_id, len(d.mentions)) for d in reading.documents] == [("7", 2), ("8", 1)]
    assert reading.ignored == {
        "annotation beside the one that was taken": 1,
        "result of the type choices": 1,
        "task that nobody annotated": 2,
    }


def test_a_file_of_which_nothing_is_taken_says_why(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no documents in it, less .*: row with the answer reject \(2\)"):
        read(tmp_path / "a.jsonl", *[PRODIGY | {"answer": "reject"}] * 2)


def test_the_only_text_of_a_task_may_have_any_name(tmp_path: Path) -> None:
    (document,) = read(
        tmp_path / "a.json", TASK | {"data": {"body": TEXT, "year": 1843}}, array=True
    ).documents
    assert (document.text, len(document.mentions)) == (TEXT, 2)


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(
    ("format", "row"), [("label_studio", TASK), ("prodigy", PRODIGY), ("doccano", DOCCANO)]
)
def test_a_row_longer_than_what_is_looked_at_is_known(
    tmp_path: Path, format: str, row: dict[str, Any], array: bool
) -> None:
    # The text comes first, and what tells the format behind it.
    long: dict[str, Any] = {"text": TEXT + "x" * 100_000}
    long = {"data": long} if "data" in row else long
    long |= {name: value for name, value in row.items() if name not in long}
    (document,) = read(tmp_path / "a.json", long, array=array).documents
    assert detect(tmp_path / "a.json") == format
    assert len(document.mentions) == 2


def test_rows_of_ours_keep_their_fields_whatever_else_they_have(tmp_path: Path) -> None:
    row = {"document_id": "d", "text": "Ada", "group": "book"}
    for name, other in (("a", {"spans": []}), ("b", {"label": []}), ("c", {"label": [[0, 3, "PER"]]})):
        (document,) = read(tmp_path / f"{name}.jsonl", row | other).documents
        assert (document.document_id, document.group) == ("d", "book")


def test_offsets_of_one_text_count_alike(tmp_path: Path) -> None:
    """Where units and characters hold the same words, the other mentions of the text tell."""
    text = "\U0001f600\U0001f600aaaa bb"
    regions = [
        {"start": 4, "end": 6, "text": "aa", "labels": ["A"]},
        {"start": 9, "end": 11, "text": "bb", "labels": ["B"]},
    ]
    (document,) = read(tmp_path / "a.json", MIN | {"text": text, "ner": regions}, array=True).documents
    assert [(m.start, m.end) for m in document.mentions] == [(2, 4), (7, 9)]


def test_what_is_marked_twice_is_one_mention(tmp_path: Path) -> None:
    reading = read(tmp_path / "a.jsonl", DOCCANO | {"entities": ENTITIES})
    assert len(reading.documents[0].mentions) == 2
    assert reading.repaired == {"mention given twice": 2}


def test_an_empty_text_of_a_task_is_its_text(tmp_path: Path) -> None:
    task = TASK | {"data": {"ref": "doc-77", "text": ""}, "annotations": [{"result": []}]}
    (document,) = read(tmp_path / "a.json", task, array=True).documents
    assert document.text == ""


def test_other_fields_of_json_min_are_counted(tmp_path: Path) -> None:
    row = MIN | {"sentiment": "pos", "created_at": "2023", "tags": ["x"], "note": ""}
    assert read(tmp_path / "a.json", row, array=True).ignored == {"field sentiment": 1, "field tags": 1}


def test_a_number_too_long_to_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a", "spans": []}, {"text": ' + "1" * 5000 + "}]")
    with pytest.raises(CorpusError, match=r"a\.json: not JSON that can be read"):
        read_corpus(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        (PRODIGY, PRODIGY | {"text": 3}, "no field `text` with a text"),
        (PRODIGY, PRODIGY | {"spans": {}}, "`spans` is no list"),
        (PRODIGY, PRODIGY | {"spans": ["PER"]}, "no mention: from None to None of the type None"),
        (PRODIGY, PRODIGY | {"spans": [{"start": 10, "end": 99, "label": "LOC"}]}, "outside the text"),
        (DOCCANO, DOCCANO | {"label": "good"}, "`label` is no list"),
        (DOCCANO, DOCCANO | {"label": [[0, 3]]}, "no mention"),
        (DOCCANO, DOCCANO | {"label": [[0, 3, 1]]}, "no mention: from 0 to 3 of the type 1"),
        (DOCCANO, DOCCANO | {"label": [[True, 3, "PER"]]}, "no mention: from True"),
        (TASK, TASK | {"data": {"a": "x", "b": "y"}}, "`data` has 2 texts, and none is called `text`"),
        (TASK, TASK | {"data": "x"}, "`data` has no texts"),
        (TASK, TASK | {"annotations": 3}, "`annotations` is no list"),
        (TASK, TASK | {"annotations": [12]}, "an annotation that is no object"),
        (TASK, TASK | {"annotations": [{"result": "x"}]}, "`result` is no list"),
        (TASK, TASK | {"annotations": [{"result": [RESULT[0] | {"value": None}]}]}, "no mention"),
        # Nothing in it would count as nothing found.
        (
            TASK,
            TASK | {"annotations": [{"result": [RESULT[0] | {"type": "hypertextlabels"}]}]},
            "its mentions are of the type hypertextlabels",
        ),
        (MIN, MIN | {"ner": [MARKED[0] | {"start": 4}]}, "hold ''"),
        (MIN, MIN | {"ner": [MARKED[0] | {"labels": []}]}, "no mention: from 0 to 3 of the type None"),
        (MIN, MIN | {"text": "\ud800 " + TEXT}, "half a surrogate pair"),
        (MIN, MIN | {"ner": [MARKED[0] | {"start": -3}]}, "'Ada'"),
        (MIN, MIN | {"ner": [MARKED[0] | {"end": -4}]}, "'Ada'"),
        (MIN, MIN | {"ner": [{"start": 0, "end": 3, "text": "Ada"}]}, "no mention"),
        (GLINER, GLINER | {"ner": [[0, 4, "PER"]]}, "a mention of the words 0 to 4 of 4"),
        (GLINER, GLINER | {"ner": [[0, "1", "PER"]]}, "a mention of the words 0 to '1' of 4"),
        (GLINER, GLINER | {"ner": {"PER": [0, 1]}}, "`ner` is no list"),
        (GLINER, GLINER | {"ner": [[0, 1]]}, "is no mention"),
        (GLINER, GLINER | {"tokenized_text": []}, "a row without words"),
        (GLINER, [GLINER], "not a JSON object"),
    ],
)
@pytest.mark.parametrize("array", [False, True])
def test_what_is_wrong_is_told_by_its_place(
    tmp_path: Path, good: Any, bad: Any, what: str, array: bool
) -> None:
    bad = bad | {"id": 8} if isinstance(bad, dict) else bad
    reading = read(tmp_path / "a.json", good, bad, array=array)
    assert len(reading.documents[0].mentions) == 2
    (reject,) = reading.rejects
    assert what in reject.what
    assert reject.where == f"{tmp_path / 'a.json'}" + (": object 2" if array else ":2")
    assert reject.hint


def test_an_array_that_is_cut_off_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" + json.dumps(TASK) + ",\n{")
    with pytest.raises(CorpusError, match=r"a\.json:2: not JSON"):
        read_corpus(tmp_path / "a.json")


def test_rows_of_ours_and_of_classes_are_none_of_a_tool(tmp_path: Path) -> None:
    ours = {"text": TEXT, "mentions": [], "spans": [], "label": []}
    assert len(read(tmp_path / "a.jsonl", ours, {"text": TEXT, "label": "good"}).documents) == 2
    assert detect(tmp_path / "a.jsonl") == "jsonl"


def test_the_end_of_gliner_is_its_last_word(tmp_path: Path) -> None:
    (reject,) = read(tmp_path / "a.json", GLINER, GLINER | {"ner": [[0, 4, "PER"]]}).rejects
    assert reject.hint == "count words from 0; the end is the last word"
