"""`rayner annotate` with models that were trained, against `predict`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import rayner
from rayner import cli
from rayner.retrieval.index_folder import version_of_index
from rayner.tasks.checkpoint import save_checkpoint
from tests.serving.checkpoints import PLACES, recognizer_folder, standardizer_folder, typer_folder
from tests.tasks.small import corpus, recognizer, tagger, trained


@pytest.fixture(scope="module", params=["recognizer", "tagger"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trained model."""
    task: Any = recognizer() if request.param == "recognizer" else tagger()
    folder = tmp_path_factory.mktemp(request.param) / "best"
    save_checkpoint(folder, task, trained(task, corpus()), {})
    return folder


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Texts of one and of many windows, and none."""
    texts = [d.text for d in corpus()] + [" ".join(d.text for d in corpus()) * 20, "", " \n"]
    path = tmp_path / "in.jsonl"
    path.write_text(
        "".join(json.dumps({"document_id": f"d{i}", "text": t}) + "\n" for i, t in enumerate(texts))
    )
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `rayner annotate`."""
    with pytest.raises(SystemExit) as exited:
        cli.main(["annotate", *map(str, arguments)])
    printed = capsys.readouterr()
    assert isinstance(exited.value.code, int)
    return exited.value.code, printed.out, printed.err


def test_annotate_answers_as_predict_does(
    checkpoint: Path, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    status, printed, err = run(capsys, checkpoint, given, "--out", out, "--workers", 0, "--json")
    assert status == 0, err
    counts = json.loads(printed.splitlines()[-1])
    rows = [json.loads(line) for line in given.read_text().splitlines()]
    wanted = rayner.load(checkpoint).predict([row["text"] for row in rows])
    assert (counts["documents"], counts["rejected"]) == (len(rows), 0)
    assert counts["words_per_second"] > 0
    assert counts["model_version"].startswith(
        json.loads((checkpoint / "checkpoint.json").read_text())["task"]
    )
    found = {row["document_id"]: row for row in pq.read_table(out).to_pylist()}
    assert counts["mentions"] == sum(len(document.mentions) for document in wanted) > 0
    for row, document in zip(rows, wanted, strict=True):
        mentions = [(m["start"], m["end"], m["type"]) for m in found[row["document_id"]]["mentions"]]
        assert mentions == [(m.start, m.end, m.type) for m in document.mentions]
        scores = [m["score"] for m in found[row["document_id"]]["mentions"]]
        assert scores == pytest.approx([m.score for m in document.mentions], abs=1e-4)


def test_with_an_index_mentions_are_linked_in_the_same_pass(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recognizer_folder(tmp_path / "recognizer")
    standardizer, index = standardizer_folder(tmp_path / "places", PLACES)
    stage = {"checkpoint": str(standardizer), "index": str(index), "types": ["LOC"]}

    def piped(**changes: Any) -> Path:
        path = tmp_path / "pipeline.yaml"
        stages = [{"checkpoint": "recognizer"}, {**stage, **changes}]
        path.write_text(yaml.safe_dump({"stages": stages}))
        return path

    rest = [given, "--out", tmp_path / "out", "--workers", 0, "--json"]
    status, printed, err = run(capsys, piped(), *rest)
    assert status == 0, err
    counts = json.loads(printed.splitlines()[-1])
    wanted = rayner.load(piped()).predict(
        [json.loads(line)["text"] for line in given.read_text().splitlines()]
    )
    found = pq.read_table(tmp_path / "out").sort_by("document_id").to_pylist()
    by_id = {row["document_id"]: row["mentions"] for row in found}
    for i, document in enumerate(wanted):
        mentions = [(m["start"], m["end"], m["entity_id"]) for m in by_id[f"d{i}"]]
        assert mentions == [(m.start, m.end, m.entity_id) for m in document.mentions]
        assert [bool(m["candidates"]) for m in by_id[f"d{i}"]] == [m.type == "LOC" for m in document.mentions]
        values = [m.probability for m in document.mentions]
        assert [value is not None for value in values] == [m.type == "LOC" for m in document.mentions]
        assert [m["probability"] for m in by_id[f"d{i}"]] == [
            value if value is None else pytest.approx(value, abs=1e-4) for value in values
        ]
        margins = [m.margin for m in document.mentions]
        assert [m["margin"] for m in by_id[f"d{i}"]] == pytest.approx(margins, abs=1e-3)
        assert all(margin is not None and margin > 0 for margin in margins)
    linked = sum(m.entity_id is not None for document in wanted for m in document.mentions)
    assert counts["linked"] == linked > 0
    assert version_of_index(index) in counts["model_version"]
    # The same run with another operating point has other answers, and must not go on with these.
    status, _, err = run(capsys, piped(operating_point="never"), *rest)
    assert (status, "another set of options" in err) == (2, True), err
    status, _, err = run(capsys, piped(operating_point="balance"), *rest)
    assert (status, "stages.1.operating_point" in err) == (2, True), err
    status, _, err = run(capsys, piped(types=["LOCATION"]), *rest, "--fresh")
    what = "pipeline.yaml: stages.1.types: links the type 'LOCATION', which no stage before it finds"
    assert (status, what in err) == (2, True), err
    status, _, err = run(capsys, standardizer, *rest, "--fresh")
    assert (status, "task standardizer does not find mentions in documents" in err) == (2, True), err


def test_types_that_were_never_learned_are_named_with_their_threshold(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recognizer, types = recognizer_folder(tmp_path / "recognizer"), tmp_path / "types.yaml"
    types.write_text("- {name: LOC, description: A place.}\n- {name: TOWN, description: A town.}\n")
    arguments = [recognizer, given, "--out", tmp_path / "out", "--types", types, "--workers", 0, "--json"]
    status, printed, err = run(capsys, *arguments)
    assert status == 0, err
    assert json.loads(printed.splitlines()[-1])["new_types"] == {"TOWN": "dynamic"}


def test_without_json_a_summary_and_a_next_command_that_shows_the_mentions(
    checkpoint: Path, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / 'Ann\'s "$texts"'
    status, printed, _ = run(capsys, checkpoint, given, "--out", out, "--workers", 0)
    assert status == 0
    assert "documents:" in printed
    assert "startup_seconds:" in printed
    _, _, following = printed.partition("next:")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    shown = subprocess.run(
        following.strip(), shell=True, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert "'start': " in shown.stdout


def test_of_types_of_given_mentions_the_summary_has_the_most_frequent_fine_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rayner.cli.annotate.MOST_FINE_TYPES", 1)
    folder, given = typer_folder(tmp_path / "typer"), tmp_path / "given.jsonl"
    mentions = [{"start": 0, "end": 3}, {"start": 8, "end": 13}]
    given.write_text(json.dumps({"text": "Ada met Byron in Paris.", "mentions": mentions}))
    arguments = [folder, given, "--out", tmp_path / "out", "--workers", 0]
    _, printed, _ = run(capsys, *arguments, "--json")
    (most, count), *others = json.loads(printed)["fine_types"].items()
    _, printed, _ = run(capsys, *arguments)
    shown = dict(line.split(":", 1) for line in printed.splitlines())
    assert shown["fine_types"].strip() == f"{most} {count}, {len(others)} more in --json"
    assert "types" not in shown


def test_what_the_user_can_correct_is_one_line_and_status_2(
    checkpoint: Path, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    (tmp_path / "types.yaml").write_text("- 7\n")
    (tmp_path / "broken").mkdir()
    for arguments, named in (
        ([checkpoint, tmp_path / "none.jsonl", "--out", out], "no such file or folder"),
        ([checkpoint, given, "--out", given], "holds the input"),
        ([checkpoint, given, "--out", tmp_path / "types.yaml"], "is a file"),
        (
            [checkpoint, given, "--out", tmp_path / "types.yaml" / "out"],
            "cannot be written to (Not a directory)",
        ),
        ([checkpoint, given, "--out", "nowhere://x/y"], "cannot be reached"),
        ([checkpoint, given, "--out", out, "--types", tmp_path / "types.yaml"], "types.yaml"),
        ([tmp_path / "broken", given, "--out", out], "recipe.yaml: is missing"),
        ([checkpoint, given, "--out", out, "--workers", "-1"], "--workers"),
        ([checkpoint, given, "--out", out, "--shift", "nan"], "shift: "),
        ([checkpoint, given, "--out", out, "--workers", 2, "--max-workers", 4], "conflicts with --max"),
        ([checkpoint, given], "--out"),
    ):
        status, printed, err = run(capsys, *arguments)
        assert (status, printed) == (2, ""), err
        assert named in err.splitlines()[-1]
        assert "Traceback" not in err
