"""`rayner predict`: what it prints of texts, on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import shutil
import sys
from pathlib import Path

import pytest
import yaml

import rayner
from rayner.data.schema import Context, Document
from rayner.data.writers.jsonl import json_row
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.stages import Pipeline
from tests.serving.checkpoints import PLACES, TEXTS, recognizer_folder, standardizer_folder
from tests.tasks.small_recipes import SMALL


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a recognizer and a standardizer of places."""
    folder = tmp_path_factory.mktemp("pipeline")
    recognizer_folder(folder / "recognizer")
    standardizer_folder(folder, PLACES)
    stages = [
        {"checkpoint": "recognizer"},
        {"checkpoint": "best", "index": "index", "types": ["LOC"]},
    ]
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    return folder / "pipeline.yaml"


@pytest.fixture
def stdin(monkeypatch):
    """Give bytes on standard input."""

    def put(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


def test_texts_are_marked_with_what_python_finds(run, pipeline):
    status, out, err = run("predict", pipeline, *TEXTS[:4])
    assert status == 0, err
    (first, *_) = documents = rayner.load(pipeline).predict(TEXTS[:4])
    lines = out.splitlines()
    assert len(lines) == 4
    assert [line.count("](") for line in lines] == [len(document.mentions) for document in documents]
    assert "[Ada Lovelace](PER)" in lines[0]
    (place,) = (m for m in first.mentions if m.type == "LOC")
    assert f"[London](LOC = {place.entity_id} {place.entity_id.title()})" in lines[0]


def test_json_is_a_row_a_text_and_a_line_of_counts(run, pipeline, stdin):
    stdin("\ufeffAda Lovelace wrote in London.\r\n\nParis".encode())
    status, out, err = run("predict", pipeline, "--json")
    assert status == 0, err
    *rows, counts = map(json.loads, out.splitlines())
    wanted = rayner.load(pipeline).predict(["Ada Lovelace wrote in London.", "", "Paris"])
    assert [row["text"] for row in rows] == [document.text for document in wanted]
    assert [[(m["start"], m["end"], m.get("entity_id")) for m in row["mentions"]] for row in rows] == [
        [(m.start, m.end, m.entity_id) for m in document.mentions] for document in wanted
    ]
    assert rows[0].keys() == json_row(wanted[0]).keys()
    found = [m for document in wanted for m in document.mentions]
    assert counts["documents"] == 3
    assert counts["mentions"] == len(found) == sum(counts["types"].values()) > 1
    assert counts["linked"] == sum(m.entity_id is not None for m in found)
    assert counts["model_version"].count("+") == 2


def test_contexts_are_shown_below_the_text(run, pipeline, monkeypatch):
    read = (Context("Before\x1b.", 0.5), Context("After.", None, before=False))

    def with_contexts(self: Pipeline, document: Document) -> Document:
        return Document("", document.text, sentences=((0, 4), (5, 9)), sentence_contexts=(read, ()))

    monkeypatch.setattr(Pipeline, "with_contexts", with_contexts)
    _, out, _ = run("predict", pipeline, "Here. There.", "--contexts")
    assert out.splitlines()[1:] == [
        "  chosen for 'Here'",
        "    before 0.50: Before\\x1b.",
        "    after: After.",
    ]
    _, out, _ = run("predict", pipeline, "Here. There.", "--contexts", "--json")
    sentences = json.loads(out.splitlines()[0])["sentences"]
    assert [len(sentence["contexts"]) for sentence in sentences] == [2, 0]
    assert sentences[0]["contexts"][0] == {"text": "Before\x1b.", "score": 0.5, "before": True}


def test_a_standardizer_names_the_entity_of_each_text(run, pipeline):
    best, index = pipeline.parent / "best", pipeline.parent / "index"
    status, out, err = run("predict", best, "--index", index, "Londinium", "--top-k", 2, "--scores")
    assert status == 0, err
    first, *candidates = out.splitlines()
    assert first.startswith("[Londinium](london London ")
    assert len(candidates) == 2
    assert run("predict", best, "--index", index, "...")[1] == "[...](NIL)\n"
    _, out, _ = run("predict", best, "--index", index, "Paris", "...", "--json")
    *rows, counts = map(json.loads, out.splitlines())
    assert [row["entity_id"] for row in rows] == ["paris", None]
    assert (counts["mentions"], counts["linked"]) == (2, 1)


def test_json_is_json_where_the_output_is_not_utf_8(run, pipeline, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    assert run("predict", pipeline, "Zoé \U0001f600", "--json")[0] == 0
    assert json.loads(written.getvalue().splitlines()[0])["text"] == "Zoé \U0001f600"


def test_a_closed_standard_input_is_said(run, pipeline, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    told = "error: standard input: is closed; give a TEXT, or texts on standard input\n"
    assert run("predict", pipeline) == (2, "", told)


def test_what_is_before_a_line_that_cannot_be_read_is_answered(run, pipeline, stdin):
    stdin(b"Ada Lovelace\nbad \xff\nParis\n")
    status, out, err = run("predict", pipeline)
    assert (status, len(out.splitlines())) == (2, 1)
    assert err == "error: standard input:2: not UTF-8 (byte 5); convert it to UTF-8, as with iconv\n"


def test_hostile_text_does_not_reach_the_output_raw(run, pipeline):
    hostile = "\x1b[2J\x9b\u202eAda\r\nLovelace\x00"
    for options in ([], ["--json"]):
        status, out, err = run("predict", pipeline, hostile, "", *options)
        assert status == 0, err
        assert all(character >= " " or character == "\n" for character in out)
        assert not {"\x9b", "\u202e"} & set(out)
    assert json.loads(out.splitlines()[0])["text"] == hostile
    assert len(out.splitlines()) == 3


def test_a_wrong_argument_is_one_line(run, pipeline, tmp_path):
    types = tmp_path / "types.yaml"
    types.write_text("- {name: LOC, description: A place.}\n")
    spaced = shutil.copy(types, tmp_path / "two words.yaml")
    for arguments, named in (
        ([pipeline, "bad \udcff"], "TEXT 1: not UTF-8"),
        (
            [pipeline, "a", types],
            f"TEXT 2: {types} is a file, and a text is wanted; rayner predict",
        ),
        (
            [pipeline, spaced],
            f"rayner predict {pipeline} < '{spaced}', or rayner annotate {pipeline} '{spaced}'",
        ),
        ([pipeline, "a", "--types", types], "cannot be asked of a whole pipeline"),
        ([pipeline.parent / "recognizer", "a", "--top-k", 3], "top_k: is no option of a recognizer"),
        ([pipeline.parent / "recognizer", "a", "--support", types], "support: is no option of a recognizer"),
        ([pipeline.parent / "best", "a", "--nil-share", 2], "--nil-share"),
        ([pipeline, "a", "--precision", "float8"], "--precision"),
        ([tmp_path, "a"], "name a"),
    ):
        status, out, err = run("predict", *arguments)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert named in err


def test_a_model_of_coreference_is_told_what_it_is_for(run, tmp_path):
    task = train_task(parse_recipe(SMALL["coreference"](tmp_path), "test"))
    save_checkpoint(tmp_path / "best", task, task.build(), {})
    status, out, err = run("predict", tmp_path / "best", "Ada saw Ada.")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"rayner corpus resolve TEXTS --resolver rules --resolver ranking:{tmp_path / 'best'} --out" in err


@pytest.fixture
def run_on_a_terminal(run, monkeypatch):
    """Run the command where standard input and output are a terminal: what is shown up to some bytes."""

    def run_on_a_terminal(*arguments: object, typed: bytes = b"", until: bytes) -> bytes:
        leader, follower = pty.openpty()
        os.write(leader, typed)
        monkeypatch.setenv("TERM", "xterm")
        shown = b""
        with open(follower) as stdin, open(follower, "w", closefd=False) as stdout:
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(sys, "stdout", stdout)
            status, _, err = run(*arguments)
            assert status == 0, err
            stdout.flush()
            # What is written comes out at the other end a little later.
            while until not in shown and select.select([leader], [], [], 10)[0]:
                shown += os.read(leader, 4096)
        os.close(leader)
        return shown

    return run_on_a_terminal


def test_on_a_terminal_typed_lines_are_answered_in_colour(run_on_a_terminal, pipeline, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = run_on_a_terminal("predict", pipeline, typed=b"Ada Lovelace\n\x04", until=b"(PER)")
    assert b"Ada Lovelace\x1b[" in shown


def test_where_no_colour_is_wanted_a_terminal_shows_plain_lines(run_on_a_terminal, pipeline, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    shown = run_on_a_terminal("predict", pipeline, "Ada\nLovelace", until=b"\n")
    assert b"\x1b" not in shown
    assert shown.count(b"\n") == 1
