"""`rayner tune`: what is wrong with its space is said at once, and what comes next at its end."""

from __future__ import annotations


def test_a_space_for_another_task_is_said_to_be_one(run, tmp_path):
    recipe, space = tmp_path / "mine.yaml", tmp_path / "names.py"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    space.write_text("TASK, METRIC = 'standardizer', 'top1'\ndef space(): return {'training.epochs': [1, 2]}")
    status, _, err = run("tune", space, recipe, "--out", tmp_path / "out")
    assert status == 2
    assert err.startswith("error: space names: is for the task 'standardizer'; ")
    assert err.count("\n") == 1


def test_the_best_of_each_sweep_is_trained_in_a_folder_of_its_own(run, tmp_path, monkeypatch):
    winner = {"score": {"f1": 0.5}, "checkpoint": None}
    shown = {"settings": {}, "score": {"f1": 0.5}, "spread": None, "interval": None, "winner": winner}
    shown |= {"trials": {"finished": 1}, "seconds": 1.0}

    def sweep(space, base, out, settings, fresh, resume_errored):
        return {**shown, "best": str(out / "best.yaml")}

    monkeypatch.setattr("rayner.runtime.sweeps.sweep.sweep", sweep)
    recipe, space = tmp_path / "mine.yaml", tmp_path / "names.py"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    space.write_text("def space(): return {'training.epochs': [1, 2]}")
    for name in ("one", "two"):
        out = tmp_path / name
        status, printed, _ = run("tune", space, recipe, "--out", out)
        assert status == 0
        assert f"rayner train {out}/best.yaml --out {out}_best\n" in printed
