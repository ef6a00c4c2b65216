"""A command as a job: what it asks the cluster for, and what comes back of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from rayner.cli.app import app
from rayner.cli.job import _LEADS, Outcome, main, needs_of, work
from rayner.errors import RecipeError
from rayner.runtime.elsewhere import WAIT_VARIABLE, Needs
from rayner.runtime.run_folder import STORAGE_VARIABLE


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "mine.yaml"
    scaling = "{cpus_per_worker: 3, gpus_per_worker: 1, memory_per_worker: 2.5}"
    file.write_text(f"task: tagger\nscaling: {scaling}\n", encoding="utf-8")
    return file


@pytest.fixture
def checkpoint(recipe: Path) -> Path:
    folder = recipe.parent / "best"
    folder.mkdir()
    recipe.rename(folder / "recipe.yaml")
    return folder


def test_a_training_asks_for_what_its_recipe_says(recipe: Path) -> None:
    scaling, leads = needs_of(["train", str(recipe), "--set", "scaling.cpus_per_worker=5", "--set", "seed=2"])
    assert (scaling.cpus_per_worker, scaling.gpus_per_worker, scaling.memory_per_worker) == (5, 1, 2.5)
    assert not leads


@pytest.mark.parametrize(
    ("arguments", "leads"),
    [
        (["train", "RECIPE", "--workers", "2"], True),
        (["train", "RECIPE", "--set", "scaling.workers=2"], True),
        (["train", "RECIPE", "--set", "scaling.workers=2", "--workers", "0"], False),
        (["tune", "space.py", "RECIPE", "--workers", "0"], True),
        (["kb", "check", "RECIPE"], False),
        (["corpus", "check", "RECIPE"], True),
        (["corpus", "check", "RECIPE", "--workers", "0"], False),
        (["corpus", "convert", "RECIPE", "--out", "o"], True),
        (["corpus", "convert", "RECIPE", "--out", "o", "--workers", "0"], False),
        (["corpus", "resolve", "RECIPE", "--out", "o"], True),
    ],
)
def test_what_only_leads_workers_of_its_own_asks_for_nothing(
    recipe: Path, arguments: list[str], leads: bool
) -> None:
    assert needs_of([str(recipe) if one == "RECIPE" else one for one in arguments])[1] == leads


def commands(group: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group and those of the groups within it, with their names within their group."""
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command) if hasattr(command, "commands") else [(name, command)]


def test_every_command_that_starts_tasks_unless_told_otherwise_leads_them() -> None:
    with_workers = {
        name: "workers or 0" in inspect.getsource(command.callback)
        for name, command in commands(typer.main.get_command(app))
        if any(parameter.name == "workers" for parameter in command.params)
    }
    assert {"evaluate", "rank", "resolve", "tune"} <= set(with_workers)
    # A training works here or on workers, as its recipe says.
    assert {name for name, works_here in with_workers.items() if not works_here and name != "train"} == _LEADS


def test_a_checkpoint_asks_for_what_its_recipe_says_and_a_pipeline_for_the_most(checkpoint: Path) -> None:
    other = checkpoint.with_name("other")
    other.mkdir()
    (other / "recipe.yaml").write_text("task: typer\nscaling: {cpus_per_worker: 4}\n")
    pipeline = checkpoint.with_name("pipeline.yaml")
    pipeline.write_text("stages: [{checkpoint: best}, {checkpoint: other}]\n")
    assert needs_of(["evaluate", str(checkpoint), str(checkpoint)])[0].gpus_per_worker == 1
    both = needs_of(["evaluate", str(pipeline), str(checkpoint)])[0]
    assert (both.cpus_per_worker, both.gpus_per_worker, both.memory_per_worker) == (4, 1, 2.5)

    pipeline.write_text("stages: 3\n")
    assert needs_of(["evaluate", str(pipeline), str(checkpoint)])[0].cpus_per_worker == 1


def test_a_wrong_scaling_is_named(recipe: Path) -> None:
    with pytest.raises(RecipeError, match="scaling: gpus_per_worker"):
        needs_of(["train", str(recipe), "--set", "scaling.gpus_per_worker=some"])


def test_the_answer_and_the_error_line_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "text": "Ada", "mentions": [{"start": 0, "end": 3, "type": "PER"}]}\n')
    found = work(["corpus", "check", str(corpus), "--json"], 1)
    assert (found.status, found.error) == (0, "")
    assert found.output.startswith('{"')
    assert not capsys.readouterr().out
    refused = work(["corpus", "check"], 1)
    assert refused.status == 2
    assert refused.error.startswith("error: ")
    assert "nothing to check" in refused.error
    assert "error: " not in capsys.readouterr().err


def test_what_a_process_here_would_know_the_node_knows_too(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {name: f"of {name}" for name in ("RAYNER_DATA", "RAYNER_CACHE", "RAYNER_TASKS")}
    given |= {STORAGE_VARIABLE: "s3://runs", WAIT_VARIABLE: "60"}
    # Ray shows what is given so.
    secrets = {"PASSWORD": "secret", "MLFLOW_TRACKING_URI": "http://ada:secret@mlflow"}
    for name, value in {**given, "RAY_ADDRESS": "auto", **secrets}.items():
        monkeypatch.setenv(name, value)
    seen: list[Any] = []

    def elsewhere(begin: Any, needs: Needs, environment: Mapping[str, str]) -> Outcome:
        seen.append(environment)
        return Outcome(0, "found", "")

    monkeypatch.setattr("rayner.runtime.elsewhere.on_head", lambda: True)
    monkeypatch.setattr("rayner.runtime.elsewhere.work_elsewhere", elsewhere)
    with pytest.raises(SystemExit) as exited:
        main(["train", str(recipe)])
    assert (exited.value.code, capsys.readouterr().out) == (0, "found")
    assert seen == [given]

    monkeypatch.setenv("RAYNER_DATA", "https://ada:secret@host/data")
    with pytest.raises(SystemExit) as exited:
        main(["train", str(recipe)])
    assert (exited.value.code, len(seen)) == (2, 1)
    error = capsys.readouterr().err
    assert "https://host/data: the URI holds credentials" in error
    assert "secret" not in error
