"""`rayner tune`: what is wrong with its space is said before anything starts."""

from __future__ import annotations


def test_a_space_for_another_task_is_said_to_be_one(run, tmp_path):
    recipe, space = tmp_path / "mine.yaml", tmp_path / "names.py"
    recipe.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    space.write_text("TASK, METRIC = 'standardizer', 'top1'\ndef space(): return {'training.epochs': [1, 2]}")
    status, _, err = run("tune", space, recipe, "--out", tmp_path / "out")
    assert status == 2
    assert err.startswith("error: space names: is for the task 'standardizer'; ")
    assert err.count("\n") == 1
