"""`rayner train`: its arguments, and errors in a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def recipe(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("task: tagger\ntypes: [{name: PER}]\ncorpus: {train: [a]}\n", encoding="utf-8")
    return file


def test_train_passes_its_arguments_on(run, replaced, recipe, monkeypatch):
    monkeypatch.delenv("RAYNER_STORAGE", raising=False)
    seen = {}

    def train(recipe, out, fresh, workers):
        seen.update(epochs=recipe.training.epochs, out=out, fresh=fresh, workers=workers)
        told = {"checkpoint": out / "best", "metrics": {"f1": 0.9}, "steps": 3, "seconds": 1.0}
        return {**told, "compute_precision": "float32", "bfloat16_time": 0.44}

    replaced("training.train", "train", train)
    status, out, _ = run("train", recipe, "--set", "training.epochs=3", "--workers", "2", "--fresh")
    assert status == 0
    assert seen == {"epochs": 3, "out": Path("runs/mine"), "fresh": True, "workers": 2}
    assert "rayner evaluate runs/mine/best" in out
    assert "float32; bfloat16 takes 0.44 of its time here (--precision auto)" in " ".join(out.split())
    assert "bfloat16_time" not in out


def test_a_run_leaves_its_checkpoint_and_refuses_another_recipe(run, trained, examples):
    assert (trained / "best" / "model.safetensors").is_file()
    status, _, err = run("train", examples / "recipe.yaml", "--out", trained, "--workers", 0)
    assert status == 2
    assert "training.epochs" in err


def test_an_unknown_key_names_the_nearest_one(run, recipe):
    status, _, err = run("train", recipe, "--set", "training.epoch=3")
    assert status == 2
    assert "training.epoch" in err
    assert "'epochs'" in err


def test_a_corpus_that_is_not_there_is_named(run, recipe, tmp_path):
    status, out, err = run("train", recipe, "--out", tmp_path / "run", "--workers", 0)
    assert (status, out) == (2, "")
    assert "a does not exist" in err
