"""The whole command: help, version, wrong usage, Ctrl-C, and what starting it imports."""

from __future__ import annotations

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tomllib
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import typer

import rayner


def python(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which sees the package and nothing else of this one."""
    command = [sys.executable, *arguments]
    environment = {"PYTHONPATH": "platform", "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(run, option):
    status, out, _ = run(option)
    assert status == 0
    commands = {line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()}
    assert commands == {
        *("train", "tune", "evaluate", "report", "predict", "annotate", "standardize", "serve"),
        *("quickstart", "doctor", "corpus", "kb", "index"),
    }


def test_every_command_and_option_has_a_help(run):
    from rayner.cli.app import app

    groups = {group.name: group.typer_instance for group in app.registered_groups if group.typer_instance}
    assert all(group.info.help for group in groups.values())
    for group in [app, *groups.values()]:
        for command in group.registered_commands:
            assert command.callback is not None
            assert command.callback.__doc__


def named_commands(command, *names):
    """The words that name each command, those of groups too."""
    yield names
    for name, inner in getattr(command, "commands", {}).items():
        yield from named_commands(inner, *names, name)


def test_no_help_shows_a_type_of_python(run):
    from rayner.cli.app import app

    names = list(named_commands(typer.main.get_command(app)))
    types = re.compile(r"<(?:list\[)?(?:int|float|str|bool|Path)(?: range)?\]?>")
    assert len(names) > 20
    assert {" ".join(words): found for words in names if (found := types.findall(run(*words, "-h")[1]))} == {}


def test_no_arguments_show_the_help(run):
    assert run() == run("--help")


def test_a_group_without_a_command_shows_its_help_as_wrong_usage(run):
    status, out, err = run("corpus")
    assert (status, out) == (2, "")
    assert err.startswith("Usage: rayner corpus")
    assert "convert" in err


def test_a_letter_that_the_output_lacks_ends_no_command(monkeypatch, tmp_path):
    """As where the locale is not UTF-8."""
    from rayner.cli import main

    row = '{"document_id": "a", "text": "Ada", "mentions": [{"start": 0, "end": 3, "type": "é"}]}'
    (tmp_path / "a.jsonl").write_text(row, encoding="utf-8")
    written = BytesIO()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(written, encoding="ascii", write_through=True))
    with pytest.raises(SystemExit) as ended:
        main(["corpus", "check", str(tmp_path / "a.jsonl")])
    assert ended.value.code == 0
    assert b"\\xe9" in written.getvalue()


def test_the_version_is_the_packages(run, root):
    assert run("--version") == (0, f"rayner {rayner.__version__}\n", "")
    hatch = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    assert (root / hatch["version"]["path"]).samefile(rayner.__file__)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["tran"], "Did you mean 'train'"),
        (["corpus", "chek"], "Did you mean 'check'"),
        (["train"], "RECIPE"),
        (["train", "no-such.yaml"], "no-such.yaml"),
        (["train", "x.yaml", "--fresch"], "Did you mean '--fresh'"),
        (["report", ".", "--bogus"], "--bogus; see rayner report --help"),
        (["evaluate", ".", ".", "--format", "xml"], "'xml' is not one of 'auto', 'huggingface'"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(run, arguments, named):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: rayner")
    assert named in err


@pytest.mark.parametrize(
    ("words", "completed"),
    [("rayner ev", ["evaluate"]), ("rayner corpus convert --format li", ["livingner", "litbank"])],
)
def test_a_shell_completes_commands_and_choices(root, words, completed):
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = python(root, "-m", "rayner", _RAYNER_COMPLETE="complete_bash", **asked)
    assert done.stdout.split() == completed


@pytest.fixture(scope="module")
def imported(root):
    """How each ends that shows no more than help or the version, and what is imported by then."""
    shown = (("--help",), ("--version",), ("train", "--help"), ("tune", "--help"))
    program = (
        "import json, sys\n"
        "from rayner.cli import main\n"
        f"for one in {shown}:\n"
        "    try: main([*one])\n"
        "    except SystemExit as exited: print(json.dumps([one, exited.code, sorted(sys.modules)]))"
    )
    lines = python(root, "-c", program).stdout.splitlines()
    rows = [json.loads(line) for line in lines if line.startswith('[["')]
    return {" ".join(arguments): (status, modules) for arguments, status, modules in rows}


@pytest.mark.parametrize("arguments", ["--help", "--version", "train --help", "tune --help"])
def test_help_and_version_import_nothing_heavy(imported, arguments):
    status, modules = imported[arguments]
    assert status == 0
    assert "rayner.cli.train" in modules
    heavy = {"torch", "ray", "transformers", "pandas", "pyarrow", "numpy", "matplotlib"}
    assert heavy.isdisjoint(modules)


@pytest.mark.parametrize("job", ["corpus", "train", "evaluate", "report"])
def test_jobs_mirror_the_commands(monkeypatch, capsys, job):
    monkeypatch.setattr(sys, "argv", [job, "--help"])
    with pytest.raises(SystemExit) as exited:
        runpy.run_module(f"jobs.{job}", run_name="__main__")
    assert not exited.value.code
    assert f"rayner {job}" in capsys.readouterr().out


def test_ctrl_c_says_what_continues(run, replaced, tmp_path):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    recipe = tmp_path / "mine.yaml"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    replaced("corpora.check", "check", interrupt)
    assert run("corpus", "check", tmp_path) == (130, "", "error: interrupted\n")
    replaced("training.train", "train", interrupt)
    status, _, told = run("train", recipe, "--out", tmp_path / "run")
    assert (status, told) == (130, "error: interrupted; the same command continues from here\n")
    replaced("corpora.resolve", "resolve_texts", interrupt)
    status, _, told = run("corpus", "resolve", tmp_path, "--resolver", "rules", "--out", tmp_path / "chains")
    hint = "the same command keeps the parts of the input that are done, and begins the others anew"
    assert (status, told) == (130, f"error: interrupted; {hint}\n")


def test_sigterm_is_as_ctrl_c(run, replaced, tmp_path):
    def terminated(*_, **__):
        signal.raise_signal(signal.SIGTERM)

    replaced("corpora.check", "check", terminated)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert run("corpus", "check", tmp_path) == (130, "", "error: interrupted\n")
        # Of a process of Ray's, which ends by its own.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        run("--version")
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_working_directory_does_not_matter(root, tmp_path):
    done = python(tmp_path, "-m", "rayner", "--version", PYTHONPATH=os.fspath(root / "platform"))
    assert done.stdout == f"rayner {rayner.__version__}\n"
