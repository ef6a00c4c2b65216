"""The command's contract: exit status, one line for an error, one JSON object, a fast start."""

from __future__ import annotations

import errno
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rayner import cli
from rayner.errors import InputError

RUNTIME = "rayner.runtime"


@pytest.fixture
def run(capsys):
    """Run the command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            cli.main(arguments)
        printed = capsys.readouterr()
        return exited.value.code, printed.out, printed.err

    return run


@pytest.fixture
def verb(monkeypatch):
    """Put a function in the place of the runtime's, so that a test is about the command alone.

    A call that the runtime's own function would not take is an error.
    """

    def put(module: str, name: str, function) -> None:
        place = importlib.import_module(f"{RUNTIME}.{module}")
        signature = inspect.signature(getattr(place, name))

        def called(*arguments, **options):
            signature.bind(*arguments, **options)
            return function(*arguments, **options)

        monkeypatch.setattr(place, name, called)

    return put


def test_a_call_that_the_runtime_would_not_take_is_an_error(verb):
    from rayner.runtime import evaluate

    verb("evaluate", "evaluate", lambda *arguments, **options: {})
    assert evaluate.evaluate("checkpoint", "corpus", intervals=False) == {}
    with pytest.raises(TypeError, match="workres"):
        evaluate.evaluate("checkpoint", "corpus", workres=2)


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "input.jsonl"
    file.write_text("{}", encoding="utf-8")
    return str(file)


def test_help_names_every_verb_and_succeeds(run):
    status, out, _ = run("--help")
    assert status == 0
    assert all(verb in out for verb in ("corpus", "train", "evaluate", "report", "quickstart"))


def test_no_arguments_show_the_help(run):
    assert run()[0] == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["tran"], "Did you mean 'train'"),
        (["train"], "recipe"),
        (["train", "no-such.yaml"], "no-such.yaml"),
        (["corpus"], "Missing command"),
        (["report", ".", "--colour"], "--colour"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run, arguments, named):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: rayner")
    assert named in err


def test_an_input_error_is_one_line_and_status_2(run, verb, path):
    def evaluate(checkpoint, corpus, **options):
        raise InputError(f"{corpus}:3", "'end' lies beyond the text", "count code points")

    verb("evaluate", "evaluate", evaluate)
    status, out, err = run("evaluate", path, path, "--json")
    assert (status, out) == (2, "")
    assert err == f"error: {path}:3: 'end' lies beyond the text; count code points\n"


def test_an_input_error_from_a_ray_task_is_told_without_the_workers_traceback(run, verb, path):
    from ray.exceptions import RayTaskError

    cause = InputError("a.txt:1", "not UTF-8")

    def evaluate(checkpoint, corpus, **options):
        raise RayTaskError("task", "Traceback of the worker\n...", cause).as_instanceof_cause()

    verb("evaluate", "evaluate", evaluate)
    assert run("evaluate", path, path) == (2, "", "error: a.txt:1: not UTF-8\n")


def test_a_bug_keeps_its_traceback_and_status_1(root):
    program = (
        "import sys, types; sys.modules['rayner.runtime.report'] = module = types.ModuleType('report')\n"
        "module.report = lambda *a: 1 / 0\n"
        "from rayner.cli import main; main(['report', '.'])"
    )
    done = _python(root, "-c", program)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_json_is_the_last_line_and_prints_go_to_standard_error(run, verb, path):
    def evaluate(checkpoint, corpus, **options):
        print("a library that prints")
        return {"f1": 0.5, "loss": float("nan"), "per_type": {"PER": {"f1": 1.0}}, "path": Path("a/b")}

    verb("evaluate", "evaluate", evaluate)
    status, out, err = run("evaluate", path, path, "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1]) == {
        "f1": 0.5,
        "loss": None,
        "per_type": {"PER": {"f1": 1.0}},
        "path": "a/b",
    }
    assert "a library that prints" in err


def test_tables_show_percentages(run, verb, path):
    scores = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 8}
    verb(
        "evaluate", "evaluate", lambda checkpoint, corpus, **options: {**scores, "per_type": {"PER": scores}}
    )
    _, out, _ = run("evaluate", path, path)
    assert all(number in out for number in ("50.0", "25.0", "33.3", "PER"))


def test_check_lists_errors_first_with_their_place(run, verb, path):
    def finding(severity, line):
        return {"severity": severity, "where": f"{path}:{line}", "what": "[wrong]", "cure": "mend it"}

    found = {"documents": 2, "errors": 1, "findings": [finding("warning", 1), finding("error", 2)]}
    verb("corpora", "check", lambda paths, recipe: found)
    status, out, _ = run("corpus", "check", path)
    assert status == 1
    assert out.splitlines() == [
        f"{path}:2: error: [wrong]; mend it",
        f"{path}:1: warning: [wrong]; mend it",
        "documents: 2",
        "errors:    1",
    ]


def test_a_check_without_errors_ends_with_status_0(run, verb, path):
    warning = {"severity": "warning", "where": f"{path}:1", "what": "odd", "cure": "mend it"}
    verb("corpora", "check", lambda paths, recipe: {"errors": 0, "findings": [warning]})
    assert run("corpus", "check", path)[0] == 0


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    return file


def test_train_passes_its_arguments_on(run, verb, recipe):
    seen = {}

    def train(recipe, out, fresh, workers):
        seen.update(epochs=recipe.training.epochs, out=out, fresh=fresh, workers=workers)
        return {"checkpoint": out / "best", "metrics": {"f1": 0.9}, "steps": 3, "seconds": 1.0}

    verb("train", "train", train)
    status, out, _ = run("train", str(recipe), "--set", "training.epochs=3", "--workers", "2", "--fresh")
    assert status == 0
    assert seen == {"epochs": 3, "out": Path("runs/mine"), "fresh": True, "workers": 2}
    assert "rayner evaluate runs/mine/best" in out


def test_an_unknown_key_names_the_nearest_one(run, recipe):
    status, _, err = run("train", str(recipe), "--set", "training.epoch=3")
    assert status == 2
    assert "training.epoch" in err
    assert "'epochs'" in err


def test_a_space_for_another_task_is_said_to_be_one(run, recipe, tmp_path):
    (tmp_path / "names.py").write_text(
        "TASK, METRIC = 'standardizer', 'top1'\ndef space(): return {'training.epochs': [1, 2]}"
    )
    status, _, err = run("tune", str(tmp_path / "names.py"), str(recipe), "--out", str(tmp_path / "out"))
    assert status == 2
    assert err.startswith("error: space names: is for the task 'standardizer'; ")
    assert err.count("\n") == 1


def test_help_imports_none_of_the_libraries_that_take_seconds(root):
    slow = {"matplotlib", "pandas", "pyarrow", "ray", "scipy", "sklearn", "torch", "transformers"}
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules))\n"
        "from rayner.cli import main; main(['--help'])"
    )
    done = _python(root, "-c", program)
    assert done.returncode == 0
    loaded = done.stdout.splitlines()[-1].split()
    assert "rayner.cli" in loaded
    assert slow & set(loaded) == set()


@pytest.mark.parametrize("job", ["corpus", "train", "evaluate", "report"])
def test_jobs_mirror_the_verbs(root, job):
    done = _python(root, "-m", f"jobs.{job}", "--help")
    assert done.returncode == 0
    assert f"rayner {job}" in done.stdout


def _python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": "platform", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("inside", ["", "/below"])
def test_an_output_that_is_no_folder_is_an_error_of_one_line(run, path, tmp_path, inside):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "Ann"}\n', encoding="utf-8")
    status, out, err = run("corpus", "convert", str(corpus), "--out", path + inside)
    assert (status, out) == (2, "")
    assert path in err
    assert len(err.splitlines()) == 1


def test_a_full_disk_is_an_error_of_one_line_and_a_missing_file_of_ours_is_not(run, path, verb):
    def convert(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    verb("corpora", "convert", convert)
    status, _, err = run("corpus", "convert", path, "--out", "out")
    assert status == 2
    assert "No space left" in err
    verb("corpora", "convert", lambda *_: Path("no such file").read_text())
    with pytest.raises(FileNotFoundError):
        cli.main(["corpus", "convert", path, "--out", "out"])


def test_ctrl_c_says_what_goes_on(run, verb, path, recipe):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    verb("corpora", "check", interrupt)
    assert run("corpus", "check", path) == (130, "", "error: interrupted\n")
    verb("train", "train", interrupt)
    status, _, told = run("train", str(recipe))
    assert (status, told) == (130, "error: interrupted; the same command goes on from here\n")
