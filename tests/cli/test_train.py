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


def test_types_are_added_to_a_checkpoint(run, replaced, trained, examples, tmp_path, monkeypatch):
    monkeypatch.delenv("RAYNER_STORAGE", raising=False)
    seen = {}

    def train(recipe, out, fresh, workers):
        seen.update(types=[t.name for t in recipe.types], added=recipe.added.types, encoder=recipe.encoder)
        rows = dict.fromkeys(("before", "after", "lost", "lost_correct", "gained"), 2)
        rows |= {"f1_before": 0.75, "f1_after": 0.5}
        metrics = {"f1": 0.9, "per_type": {}, "precision": 0.9, "recall": 0.9}
        metrics["flat_decoding"] = {**rows, "per_type": {"PRODUCT": rows}}
        told = {"checkpoint": out / "best", "metrics": metrics, "steps": 3, "seconds": 1.0}
        return {**told, "compute_precision": "float32"}

    replaced("training.train", "train", train)
    file = tmp_path / "new.yaml"
    new = "types: [{name: FRUIT, description: apples and pears}]"
    file.write_text(f"task: recognizer\n{new}\ncorpus: {{train: [a]}}\n", encoding="utf-8")
    status, out, _ = run("train", file, "--add-types", trained)
    assert status == 0
    assert seen["added"] == ("FRUIT",)
    assert seen["types"][-1] == "FRUIT"
    assert len(seen["types"]) > 1
    assert seen["encoder"] == "random:16x1"
    assert "PRODUCT" in out
    assert "75.0" in out


def test_what_cannot_be_added_is_one_line(run, trained, examples, tmp_path, recipe):
    status, out, err = run("train", examples / "recipe.yaml", "--add-types", trained)
    assert (status, out) == (2, "")
    assert "is a type that" in err
    status, _, err = run("train", recipe, "--add-types", trained)
    assert status == 2
    assert "types cannot be added to a tagger" in err
    file = tmp_path / "new.yaml"
    new = "types: [{name: FRUIT, description: apples and pears}]"
    corpus = f"corpus: {{train: [{examples / 'dev.jsonl'}]}}"
    file.write_text(f"task: recognizer\n{new}\n{corpus}\n", encoding="utf-8")
    status, _, err = run("train", file, "--add-types", trained, "--out", tmp_path / "run", "--workers", 0)
    assert status == 2
    assert "corpus.train: no mention of the added type 'FRUIT', which takes at least 2" in err
