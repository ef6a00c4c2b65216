"""What any command prints: one JSON object or a summary, one line for an error, the exit status."""

from __future__ import annotations

import errno
import gc
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rayner.cli import main
from rayner.cli.printing import fail, print_result, print_summary, without_collection
from rayner.errors import InputError


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "input.jsonl"
    file.write_text("{}", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(("out", "page"), [("runs/mine", ""), ("s3://bucket/mine", " --out report.html")])
def test_the_page_that_is_offered_is_one_that_is_written(
    run, replaced, path, tmp_path, monkeypatch, out, page
):
    recipe, space = tmp_path / "mine.yaml", tmp_path / "names.py"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    space.write_text("def space(): return {'training.epochs': [1, 2]}")
    scored = {"f1": 0.5, "compute_precision": "float32"}
    trained = {**scored, "checkpoint": "best", "metrics": {}, "steps": 3, "seconds": 1.0}
    swept = {"settings": {}, "spread": None, "interval": None, "trials": {}, "seconds": 1.0, "best": "b.yaml"}
    swept |= {"score": {"f1": 0.5}, "winner": {"score": {}, "checkpoint": None}}
    replaced("training.train", "train", lambda *_, **__: trained)
    replaced("sweeps.sweep", "sweep", lambda *_: swept)
    replaced("evaluation.evaluate", "evaluate", lambda *_, **__: scored)
    monkeypatch.chdir(tmp_path)
    for command in (["train", recipe], ["tune", space, recipe], ["evaluate", path, path]):
        status, printed, err = run(*command, "--out", out)
        assert status == 0, err
        assert f"rayner report {out}{page}\n" in printed


def test_a_call_that_the_runtime_would_not_take_is_an_error(replaced):
    from rayner.runtime.reports import report

    replaced("reports.report", "report", lambda *arguments: "page")
    assert report.report(Path("run"), None) == "page"
    with pytest.raises(TypeError, match="outt"):
        report.report(Path("run"), outt=None)  # pyright: ignore[reportCallIssue]


def test_an_input_error_is_one_line_and_status_2(run, replaced, path):
    def evaluate(checkpoint, corpora, **options):
        raise InputError(f"{corpora[0]}:3", "'end' lies beyond the text", "count code points")

    replaced("evaluation.evaluate", "evaluate", evaluate)
    status, out, err = run("evaluate", path, path, "--json")
    assert (status, out) == (2, "")
    assert err == f"error: {path}:3: 'end' lies beyond the text; count code points\n"


def test_an_error_of_several_lines_is_told_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        fail("a\n b", 2)
    assert (exited.value.code, capsys.readouterr().err) == (2, "error: a b\n")


def test_an_input_error_from_a_ray_task_is_told_without_the_workers_traceback(run, replaced, path):
    from ray.exceptions import RayTaskError

    cause = InputError("a.txt:1", "not UTF-8")

    def evaluate(checkpoint, corpus, **options):
        raise RayTaskError("task", "Traceback of the worker\n...", cause).as_instanceof_cause()

    replaced("evaluation.evaluate", "evaluate", evaluate)
    assert run("evaluate", path, path) == (2, "", "error: a.txt:1: not UTF-8\n")


def test_a_bug_keeps_its_traceback_and_status_1(root):
    program = (
        "import sys, types\n"
        "sys.modules['rayner.runtime.reports.report'] = module = types.ModuleType('report')\n"
        "module.report = lambda *a: 1 / 0\n"
        "from rayner.cli import main; main(['report', '.'])"
    )
    environment = {"PYTHONPATH": "platform", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_json_is_the_last_line_and_prints_go_to_standard_error(run, replaced, path):
    def evaluate(checkpoint, corpus, **options):
        print("a library that prints")
        return {"f1": 0.5, "per_type": {"PER": {"f1": 1.0}}}

    replaced("evaluation.evaluate", "evaluate", evaluate)
    status, out, err = run("evaluate", path, path, "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1]) == {"f1": 0.5, "per_type": {"PER": {"f1": 1.0}}}
    assert "a library that prints" in err


def test_what_json_lacks_becomes_null_or_a_string(capsys):
    import numpy as np

    result = {
        "loss": float("nan"),
        "best": -math.inf,
        "path": Path("a/b"),
        "f1": np.float64(0.5),
        3: (1, None),
        "on": True,
    }
    print_result(result, True, lambda _: pytest.fail("shown"))
    assert json.loads(capsys.readouterr().out) == {
        "loss": None,
        "best": None,
        "path": "a/b",
        "f1": 0.5,
        "3": [1, None],
        "on": True,
    }


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "UTF8"])
def test_json_can_be_read_whatever_the_output_is_written_in(monkeypatch, encoding):
    written, value = io.BytesIO(), {"é": "京 \U0001f600"}
    stream = io.TextIOWrapper(written, encoding, "backslashreplace")
    monkeypatch.setattr(sys, "stdout", stream)
    print_result(value, True, lambda _: pytest.fail("shown"))
    assert json.loads(written.getvalue()) == value
    assert ("京".encode() in written.getvalue()) is (encoding == "UTF8")


def test_the_summary_lines_up_and_ends_with_the_next_command(capsys):
    facts = {"documents": 3, "types": {"PER": 2, "LOC": 1}, "metrics": {"f1": 0.5}, "heads": ["a", "b"]}
    print_summary(facts, ["rayner train [RECIPE]"])
    out = capsys.readouterr().out.splitlines()
    next_command = "next:      rayner train [RECIPE]"
    assert out == ["documents: 3", "types:     PER 2, LOC 1", "heads:     a, b", next_command]


@pytest.mark.parametrize("inside", ["", "/below"])
def test_an_output_that_is_no_folder_is_an_error_of_one_line(run, path, tmp_path, inside):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "Ann"}\n', encoding="utf-8")
    status, out, err = run("corpus", "convert", corpus, "--out", path + inside)
    assert (status, out) == (2, "")
    assert path in err
    assert len(err.splitlines()) == 1


def test_a_full_disk_is_an_error_of_one_line_and_a_missing_file_of_ours_is_not(run, path, replaced):
    def convert(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    replaced("corpora.convert", "convert", convert)
    status, _, err = run("corpus", "convert", path, "--out", "out")
    assert status == 2
    assert "No space left" in err
    replaced("corpora.convert", "convert", lambda *_: Path("no such file").read_text())
    with pytest.raises(FileNotFoundError):
        main(["corpus", "convert", path, "--out", "out"])


def test_garbage_is_collected_again_after_what_is_loaded_or_fails_to():
    with without_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), without_collection():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_an_error_shows_no_escape_sequence_of_a_name(run, tmp_path):
    status, _, err = run("train", tmp_path / "\x1b[31mred.yaml")
    assert (status, "\x1b" in err, "red.yaml" in err) == (2, False, True)
