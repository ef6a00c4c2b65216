"""A run that was killed goes on to the same end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rayner.config import BaseRecipe
from rayner.config.recipe_files import with_settings
from rayner.errors import CheckpointError, RecipeError
from rayner.files.run_checkpoints import SWEEP
from rayner.runtime.training import loop as worker
from rayner.runtime.training.loop import work
from rayner.runtime.training.run_state import changed_since, check_examples, read_state
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.killed_training import killed_at
from tests.runtime.training.several_workers import toy_values
from tests.runtime.training.toy_task import (
    STEP_THAT_WAITS,
    LoopTask,
    ToyExamples,
    largest_difference,
    run_through,
    toy_recipe,
    toy_run,
    weights_of,
)
from tests.waiting import wait_for


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("step", [1, 5, 9])
def test_resumed_equals_undisturbed(tmp_path: Path, step: int, precision: str) -> None:
    settings = {"checkpoint_every": 2, "average": 0.9, "precision": precision}
    work(toy_run(tmp_path / "whole", LoopTask(toy_recipe(0.3)), **settings))
    with killed_at(step):
        work(toy_run(tmp_path / "cut", LoopTask(toy_recipe(0.3)), **settings))
    state = work(toy_run(tmp_path / "cut", LoopTask(toy_recipe(0.3)), **settings))
    assert state.step == state.steps
    for folder in ("last", "best"):
        one, other = weights_of(tmp_path / "whole" / folder), weights_of(tmp_path / "cut" / folder)
        assert largest_difference(one, other) < 1e-6
    logged = [json.loads(line) for line in (tmp_path / "cut/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged if "loss" in row] == list(range(1, state.steps + 1))


def test_paused_equals_undisturbed(tmp_path: Path) -> None:
    settings = {"epochs": 4, "checkpoint_every": 1000, "average": 0.9}
    work(toy_run(tmp_path / "whole", LoopTask(toy_recipe(0.3)), **settings))
    reached = []
    for until in (1, 1, 3, 9):
        run = toy_run(tmp_path / "parts", LoopTask(toy_recipe(0.3)), **settings)
        state = work(replace(run, until=until))
        reached.append((state.epoch, state.position, state.finished))
    assert reached == [(1, 0, False), (1, 0, False), (3, 0, False), (4, 0, True)]
    for folder in ("last", "best"):
        one, other = weights_of(tmp_path / "whole" / folder), weights_of(tmp_path / "parts" / folder)
        assert largest_difference(one, other) < 1e-6
    logged = [json.loads(line) for line in (tmp_path / "parts/log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in logged if "loss" in row] == list(range(1, state.steps + 1))


def test_it_goes_on_within_an_epoch(tmp_path: Path) -> None:
    settings = {"epochs": 1, "checkpoint_every": 1, "normalization": "step"}
    with killed_at(3):
        work(toy_run(tmp_path, **settings))
    rest = toy_run(tmp_path, **settings)
    work(rest)
    examples = rest.examples
    assert isinstance(examples, ToyExamples)
    seen = sorted(i for part in examples.fetched for i in part)
    assert 0 < len(seen) < len(examples.rows)
    assert len(set(seen)) == len(seen)


def test_a_best_that_a_kill_left_without_its_name_gets_it(tmp_path: Path) -> None:
    work(toy_run(tmp_path, epochs=1))
    (tmp_path / "best").rename(tmp_path / ".best.new")
    assert read_state(tmp_path, toy_recipe(epochs=1)) is not None
    assert (tmp_path / "best/checkpoint.json").exists()


def test_the_loss_scale_of_float16_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"precision": "float16", "checkpoint_every": 2}
    with killed_at(3):
        work(toy_run(tmp_path, **settings))
    stored = read_state(tmp_path, toy_recipe(**settings))
    assert stored is not None
    assert stored.scale
    scale = {**stored.scale, "scale": 128.0}
    monkeypatch.setattr(worker, "read_state", lambda *_: replace(stored, scale=scale))
    _, learner = worker._start(toy_run(tmp_path, **settings))
    assert learner.scaler.state_dict() == scale


def test_a_finished_run_does_nothing(tmp_path: Path) -> None:
    first = work(toy_run(tmp_path, epochs=1))
    before = (tmp_path / "last/model.safetensors").stat().st_mtime_ns
    assert work(toy_run(tmp_path, epochs=1)) == first
    assert (tmp_path / "last/model.safetensors").stat().st_mtime_ns == before


def test_another_recipe_is_refused_by_its_keys(tmp_path: Path) -> None:
    work(toy_run(tmp_path, epochs=1))
    with pytest.raises(RecipeError, match=r"changed: training\.clip, training\.head_learning_rate, "):
        read_state(tmp_path, toy_recipe(epochs=1, learning_rate=0.5, clip=2.0))
    moved = toy_recipe(epochs=1).model_copy(
        update={"scaling": toy_recipe().scaling.model_copy(update={"workers": 7})}
    )
    assert read_state(tmp_path, moved) is not None


def test_what_a_sweep_cut_from_its_corpus_moves_with_its_runs(tmp_path: Path) -> None:
    def recipe(*train: str) -> BaseRecipe:
        return with_settings(toy_recipe(), {"corpus.train": list(train)}, "recipe")

    sweep, run = tmp_path / "moved", tmp_path / "moved/trials/a/fold0-seed1"
    run.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(sweep)
    before, now = recipe("/old/corpora/fold1.jsonl"), recipe(f"{sweep}/corpora/fold1.jsonl")
    assert changed_since(run, before, now) == ["corpus.train"]
    (sweep / SWEEP).write_text(json.dumps({"recipe": {}, "settings": {}}))
    assert changed_since(run, before, now) == []
    assert changed_since(link / "trials/a/fold0-seed1", now, recipe(f"{link}/corpora/fold1.jsonl")) == []
    for other in ("moved/corpora/fold2.jsonl", "old/corpora/fold1.jsonl"):
        assert changed_since(run, before, recipe(f"{tmp_path}/{other}")) == ["corpus.train"]
    more = recipe(f"{sweep}/corpora/fold1.jsonl", "more.jsonl")
    assert changed_since(run, before, more) == ["corpus.train"]


def test_without_its_last_state_a_finished_run_is_finished(tmp_path: Path) -> None:
    values = toy_values(tmp_path)
    found = train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0)
    shutil.rmtree(tmp_path / "run/last")
    assert train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0) == found
    with pytest.raises(RecipeError, match=r"another recipe; changed: seed; start over with --fresh"):
        train(parse_recipe(values | {"seed": 7}, "recipe"), tmp_path / "run", workers=0)
    (tmp_path / "run/result.json").unlink()
    with pytest.raises(RecipeError, match=r"another recipe"):
        train(parse_recipe(values | {"seed": 7}, "recipe"), tmp_path / "run", workers=0)


def test_another_corpus_is_refused(tmp_path: Path) -> None:
    run = toy_run(tmp_path, epochs=1)
    work(run)
    other = worker.Run(run.task, run.examples, "other", run.dev, run.out, run.device)
    with pytest.raises(RecipeError, match="corpus"):
        work(other)


@pytest.mark.parametrize("name", ["model.safetensors", "state/optimizer.safetensors", "state/state.json"])
def test_a_damaged_last_is_named(tmp_path: Path, name: str) -> None:
    work(toy_run(tmp_path, epochs=1))
    path = tmp_path / "last" / name
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointError, match=path.name):
        read_state(tmp_path, toy_recipe(epochs=1))


@pytest.mark.faults
def test_kill_9_half_way(tmp_path: Path, root: Path) -> None:
    whole, cut, gate = tmp_path / "whole", tmp_path / "cut", tmp_path / "gate"
    command = [sys.executable, "-m", "tests.runtime.training.toy_task", str(cut), str(gate)]
    process = subprocess.Popen(command, cwd=root)
    try:
        wait_for(lambda: _steps(cut) == STEP_THAT_WAITS, process=process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    gate.touch()
    subprocess.run(command, check=True, cwd=root)
    run_through(whole, gate)
    assert _steps(whole) == _steps(cut) > STEP_THAT_WAITS
    for folder in ("last", "best"):
        assert largest_difference(weights_of(whole / folder), weights_of(cut / folder)) < 1e-6


def _steps(out: Path) -> int:
    path = out / "log.jsonl"
    return sum('"loss"' in line for line in path.read_text().splitlines()) if path.exists() else 0


def test_another_development_set_is_refused(tmp_path: Path) -> None:
    """The best checkpoint so far was judged by what is no more, and would be held against another score."""
    values = toy_values(tmp_path, checkpoint_every=2)
    dev, rows = tmp_path / "dev.jsonl", (tmp_path / "corpus.jsonl").read_text().splitlines()
    dev.write_text("\n".join(rows[:20]) + "\n")
    recipe = parse_recipe({**values, "corpus": {**values["corpus"], "dev": [str(dev)]}}, "recipe")
    with killed_at(3):
        train(recipe, tmp_path / "run")
    dev.write_text("\n".join(rows[:19]) + "\n")
    with pytest.raises(RecipeError, match="another state of the corpus"):
        train(recipe, tmp_path / "run")
    dev.write_text("\n".join(rows[:20]) + "\n")
    stored = read_state(tmp_path / "run", recipe)
    assert stored is not None
    # As a version that planned other steps would have gone on.
    with pytest.raises(RecipeError, match="of another version of rayner"):
        check_examples(tmp_path / "run", stored, stored.examples, stored.steps + 1)
    assert train(recipe, tmp_path / "run")["steps"] == stored.steps
