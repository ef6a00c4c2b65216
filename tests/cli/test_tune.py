"""`rayner tune`: what is wrong with its space is said at once, and what comes next at its end."""

from __future__ import annotations

import pytest


def test_a_space_for_another_task_is_said_to_be_one(run, tmp_path):
    recipe, space = tmp_path / "mine.yaml", tmp_path / "names.py"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    space.write_text("TASK, METRIC = 'standardizer', 'top1'\ndef space(): return {'training.epochs': [1, 2]}")
    status, _, err = run("tune", space, recipe, "--out", tmp_path / "out")
    assert status == 2
    assert err.startswith("error: space names: is for the task 'standardizer'; ")
    assert err.count("\n") == 1


@pytest.fixture
def tuned(run, tmp_path, monkeypatch):
    """What `rayner tune --out OUT` prints of a sweep that ended with this score, and perhaps more."""
    recipe, space = tmp_path / "mine.yaml", tmp_path / "names.py"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    space.write_text("def space(): return {'training.epochs': [1, 2]}")

    def tuned(out, score, *options, **more):
        shown = {"settings": {}, "spread": None, "interval": None, "trials": {"finished": 1}, "seconds": 1.0}
        shown |= {"score": score, "winner": {"score": score, "checkpoint": None}, "best": f"{out}/best.yaml"}
        monkeypatch.setattr("rayner.runtime.sweeps.sweep.sweep", lambda *given: shown | more)
        status, printed, _ = run("tune", space, recipe, "--out", out, *options)
        assert status == 0
        return printed

    return tuned


def test_the_best_of_each_sweep_is_trained_in_a_folder_of_its_own(tuned, tmp_path, monkeypatch):
    for out in (tmp_path / "one", tmp_path / "two"):
        assert f"rayner train {out}/best.yaml --out {out}_best\n" in tuned(out, {"f1": 0.5})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert f"--out {tmp_path}/here_best\n" in tuned(".", {"f1": 0.5})


def test_what_is_no_fraction_is_shown_as_no_percentage(tuned, tmp_path):
    score = {"mse": 0.0625, "seconds": 12.4, "f1": 0.5}
    told = tuned(tmp_path, score, interval=[0.05, 0.075], within_interval=1, spread=0.01)
    assert "mse 0.0625 (standard deviation over runs 0.0100), seconds 12, f1 50.0\n" in told
    assert "f1 50.0 (standard deviation over runs 1.0)\n" in tuned(tmp_path, {"f1": 0.5}, spread=0.01)
    assert "0.0500 to 0.0750 (95 %), with 1 other trial in it" in told


def test_what_is_set_and_searched_is_told_to_have_no_effect(tuned, tmp_path, caplog):
    tuned(tmp_path, {"f1": 0.5}, "--set", "training.epochs=3")
    assert "--set training.epochs has no effect: the space names searches it" in caplog.text
