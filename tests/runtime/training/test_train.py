"""`train`, from a recipe to a result, in this process."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import rayner
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.writers import write_jsonl
from rayner.errors import CheckpointError, InputError, RaynerError, RecipeError
from rayner.models.encoder import load_tokenizer
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.tracking import scalars, wants_mlflow
from rayner.runtime.training.example_building import find_units
from rayner.runtime.training.run_state import read_state
from rayner.runtime.training.train import conclude, train
from rayner.runtime.training.training_progress import line_of
from rayner.tasks.corpus_task import CorpusTask
from rayner.tasks.registry import parse_recipe
from rayner.tasks.tagger.task import TaggerTask
from tests.runtime.training.other_recipe import replace_recipe
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.small import recognizer
from tests.tasks.standardizer.small_names import small_recipe


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return tiny_recipe(tmp_path_factory.mktemp("corpus"), "tagger", tokens_per_step=400, epochs=25)


@pytest.fixture(scope="module")
def out(values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tagger"
    train(parse_recipe(values, "recipe"), folder, workers=0)
    return folder


def test_a_run_leaves_what_the_other_commands_need(out: Path, values: dict[str, Any]) -> None:
    result = json.loads((out / "result.json").read_text())
    told = {"checkpoint", "metrics", "steps", "best_step", "seconds", "compute_precision"}
    assert told == result.keys() - {"bfloat16_time"}
    assert result["metrics"]["f1"] > 0.5
    low, high = result["metrics"]["intervals"]["f1"]
    assert low <= result["metrics"]["f1"] <= high
    rows = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    scores = {row["step"]: row["metrics"]["f1"] for row in rows if "metrics" in row}
    assert scores[result["best_step"]] == max(scores.values()) == result["metrics"]["f1"]
    assert json.loads((out / "best/metrics.json").read_text()) == result["metrics"]
    for name in ("gold", "predictions"):
        assert pq.read_table(out / f"best/evaluation/{name}.parquet").num_rows == 30
    assert (out / "recipe.yaml").exists()
    assert list((out / "tensorboard").iterdir())


def test_the_same_command_again_returns_the_result(out: Path, values: dict[str, Any]) -> None:
    recipe = parse_recipe(values, "recipe")
    before = (out / "last/model.safetensors").stat().st_mtime_ns
    assert train(recipe, out, workers=0) == json.loads((out / "result.json").read_text())
    assert (out / "last/model.safetensors").stat().st_mtime_ns == before


def test_what_was_left_undone_at_the_end_is_done(out: Path, values: dict[str, Any], tmp_path: Path) -> None:
    """As after a kill between the last step and the result."""
    left = tmp_path / "left"
    shutil.copytree(out, left)
    (left / "result.json").unlink()
    weights = (left / "last/model.safetensors").read_bytes()
    result = train(parse_recipe(values, "recipe"), left, workers=0)
    whole = json.loads((out / "result.json").read_text())
    assert {key: result[key] for key in ("metrics", "steps")} == {k: whole[k] for k in ("metrics", "steps")}
    assert json.loads((left / "result.json").read_text()) == result
    assert (left / "last/model.safetensors").read_bytes() == weights


def test_the_end_of_a_training_reads_dev_only_for_a_task_that_examines_it(
    out: Path, values: dict[str, Any], tmp_path: Path
) -> None:
    read: list[str] = []

    class Silent(TaggerTask):
        def read(self, unit: Any) -> Iterator[Any]:
            for item in super().read(unit):
                read.append(item.document_id)
                yield item

    class Curious(Silent):
        def measure(self, model: torch.nn.Module, dev: Iterable[Any]) -> dict[str, Any]:
            # As they are read, not all before the first.
            held = [(document.document_id, len(read)) for document in dev]
            return {"held": [count for _, count in held]}

    recipe = parse_recipe(values, "recipe")
    shutil.copytree(out, tmp_path / "out")
    whole = json.loads((out / "result.json").read_text())["metrics"]
    for task in (Silent(recipe), Curious(recipe)):
        units = find_units(task, "dev", tmp_path / "cache")
        read.clear()
        state = read_state(tmp_path / "out", recipe)
        assert state is not None
        result = conclude(task, units, tmp_path / "out", state)
        held = list(range(1, 31)) if isinstance(task, Curious) else []
        assert result["metrics"].pop("held", []) == held
        assert len(read) == len(held)
        assert result["metrics"] == whole


def test_evaluation_says_the_same_as_the_end_of_training(out: Path, values: dict[str, Any]) -> None:
    metrics = evaluate(out / "best", Path(values["corpus"]["dev"][0]))
    stored = json.loads((out / "best/metrics.json").read_text())
    assert metrics == stored | {"compute_precision": "float32"}
    assert {"precision", "recall", "f1", "per_type", "intervals"} <= metrics.keys()
    assert "intervals" not in evaluate(out / "best", [Path(values["corpus"]["dev"][0])], intervals=False)


def test_evaluation_calls_types_as_the_recipe_does_and_names_those_that_do_not_count(
    out: Path, values: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (dev,) = values["corpus"]["dev"]
    documents = read_corpus(dev).documents
    others = [
        replace(d, mentions=tuple(replace(m, type=f"old {m.type}") for m in d.mentions)) for d in documents
    ]
    write_jsonl(others, tmp_path / "old.jsonl")
    expected = evaluate(out / "best", Path(dev), intervals=False)
    assert evaluate(out / "best", tmp_path / "old.jsonl", intervals=False)["support"] == 0
    kind = others[0].mentions[0].type
    assert f"mentions of types that are not looked for do not count: {kind} (" in caplog.text
    assert "no mention is annotated of a type that is looked for" in caplog.text
    shutil.copytree(out / "best", tmp_path / "best")
    rename = {f"old {t['name']}": t["name"] for t in values["types"]}
    recipe = parse_recipe({**values, "corpus": {**values["corpus"], "rename": rename}}, "recipe")
    replace_recipe(tmp_path / "best", recipe)
    assert evaluate(tmp_path / "best", tmp_path / "old.jsonl", intervals=False) == expected


def test_a_loaded_checkpoint_predicts_texts_and_documents(out: Path) -> None:
    loaded = rayner.load(out / "best")
    text = "Grace Hopper went to Oslo."
    [from_text] = loaded.predict([text])
    [from_document] = loaded.predict([Document("a", text)])
    assert from_text.mentions
    assert from_text.mentions == from_document.mentions
    assert (from_text.document_id, from_document.document_id) == ("0", "a")
    assert loaded.predict(text)[0].mentions == from_text.mentions


def test_fresh_starts_over_and_keeps_foreign_files(tmp_path: Path, values: dict[str, Any]) -> None:
    def recipe(rate: float) -> Any:
        training = values["training"] | {"epochs": 1, "learning_rate": rate}
        return parse_recipe(values | {"training": training}, "recipe")

    train(recipe(1e-3), tmp_path / "run", workers=0)
    (tmp_path / "run/notes.txt").write_text("mine")
    (tmp_path / "run/report.html").write_text("<!doctype html>")
    with pytest.raises(RecipeError, match=r"learning_rate.*--fresh"):
        train(recipe(1e-4), tmp_path / "run", workers=0)
    result = train(recipe(1e-4), tmp_path / "run", fresh=True, workers=0)
    assert result["steps"] > 0
    assert (tmp_path / "run/notes.txt").read_text() == "mine"
    assert not (tmp_path / "run/report.html").exists(), "it shows the run that is gone"
    (tmp_path / "run/best").rename(tmp_path / "elsewhere")
    (tmp_path / "run/best").symlink_to(tmp_path / "elsewhere")
    assert train(recipe(1e-4), tmp_path / "run", fresh=True, workers=0)["steps"] > 0
    assert (tmp_path / "elsewhere/recipe.yaml").exists()


@pytest.mark.parametrize("broken", ["corpus", "model"])
def test_a_run_is_not_removed_for_one_that_cannot_begin(
    tmp_path: Path, values: dict[str, Any], broken: str
) -> None:
    values |= {"training": values["training"] | {"epochs": 1}}
    result = train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0)
    (tmp_path / "broken.jsonl").write_text("no JSON\n")
    wrong = {"corpus": values["corpus"] | {"train": [str(tmp_path / "broken.jsonl")]}}
    wrong = wrong if broken == "corpus" else {"encoder": str(tmp_path / "nowhere")}
    with pytest.raises(RaynerError):
        train(parse_recipe(values | wrong, "recipe"), tmp_path / "run", fresh=True, workers=0)
    assert train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0) == result


def test_a_finished_run_has_its_checkpoint_where_it_lies_now(tmp_path: Path, values: dict[str, Any]) -> None:
    recipe = parse_recipe(values | {"training": values["training"] | {"epochs": 1}}, "recipe")
    train(recipe, tmp_path / "run", workers=0)
    (tmp_path / "run").rename(tmp_path / "moved")
    assert train(recipe, tmp_path / "moved", workers=0)["checkpoint"] == f"{tmp_path / 'moved'}/best"
    shutil.rmtree(tmp_path / "moved/best")
    with pytest.raises(CheckpointError, match=r"moved/best: is missing, though the run is finished; restore"):
        train(recipe, tmp_path / "moved", workers=0)


def test_the_folder_of_a_sweep_is_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    (tmp_path / "sweep.json").write_text("{}")
    (tmp_path / "trials/a").mkdir(parents=True)
    (tmp_path / "result.json").write_text("{}")
    for fresh in (False, True):
        with pytest.raises(InputError, match="holds a sweep; name another folder"):
            train(parse_recipe(values, "recipe"), tmp_path, fresh=fresh, workers=0)
    assert not (tmp_path / "best").exists()


def test_a_sweep_that_was_refused_before_its_first_trial_has_no_claim(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    (tmp_path / "sweep.json").write_text('{"recipe": {}, "settings": {}}')
    train(
        parse_recipe(values | {"training": values["training"] | {"epochs": 1}}, "recipe"), tmp_path, workers=0
    )
    assert (tmp_path / "best").exists()
    assert not (tmp_path / "sweep.json").exists()


def test_threads_are_those_of_the_recipe_without_workers_too(
    tmp_path: Path, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    training = values["training"] | {"epochs": 1}
    recipe = parse_recipe(values | {"training": training, "scaling": {"threads_per_worker": 3}}, "recipe")
    train(recipe, tmp_path / "run", workers=0)
    assert asked == [3]


def test_word_embeddings_stay_where_they_are_not_to_learn(tmp_path: Path, values: dict[str, Any]) -> None:
    def learned(epochs: int, learn: bool) -> dict[str, torch.Tensor]:
        training = {**values["training"], "epochs": epochs, "train_word_embeddings": learn}
        out = tmp_path / f"{epochs}-{learn}"
        train(parse_recipe({**values, "training": training}, "recipe"), out, workers=0)
        return load_file(out / "last/encoder/model.safetensors")

    words = "embeddings.word_embeddings.weight"
    one, two, all_learn = learned(1, False), learned(2, False), learned(1, True)
    assert {name for name in one if torch.equal(one[name], two[name])} == {words}
    assert not torch.equal(one[words], all_learn[words])


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path, values: dict[str, Any]) -> None:
    with (tmp_path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match=r"another process.*trains in this folder"):
            train(parse_recipe(values, "recipe"), tmp_path, workers=0)


def test_mlflow_that_is_not_there_is_an_error_only_if_asked_for(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:1")
    assert not wants_mlflow(parse_recipe(values, "recipe"))
    with pytest.raises(RecipeError, match=r"rayner\[track\]"):
        wants_mlflow(parse_recipe(values | {"tracking": {"mlflow": True}}, "recipe"))


def test_records_as_curves_and_as_lines() -> None:
    steps = {"step": 2, "steps": 8, "epoch": 1, "loss": 1.5, "parts": {"span": 1.0}, "learning_rate": 1e-3}
    steps |= {"words_per_second": 1234.5, "padding": 0.05, "seconds": 2.0, "eta": 61.2}
    assert scalars(steps)["train/parts/span"] == 1.0
    assert scalars({"step": 2, "epoch": 1, "metrics": {"f1": 0.5, "per_type": {}}}) == {"dev/f1": 0.5}
    assert line_of(steps).startswith("step 2/8  epoch 1  loss 1.5000 (span 1.0000)")
    assert line_of(steps).endswith("1,234 words/s  padding 5.0 %  0:01:01 left")


def test_an_encoder_that_cannot_recompute_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    from transformers import MPNetConfig, MPNetModel

    config = MPNetConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    MPNetModel(config).save_pretrained(tmp_path / "encoder")
    load_tokenizer("random:8x1").save(tmp_path / "encoder")
    task = recognizer(encoder=str(tmp_path / "encoder"), training={"gradient_checkpointing": True})
    with pytest.raises(InputError, match="gradient_checkpointing: MPNetModel does not support"):
        train(task.recipe, tmp_path / "run", workers=0)
    assert not list(tmp_path.glob(".examples"))


@pytest.mark.parametrize(
    ("scaling", "workers"),
    [
        ({"gpus_per_worker": 0.5}, 2),
        ({"gpus_per_worker": 0.5, "workers": 3}, None),
        ({"gpus_per_worker": 0.5, "workers": 1, "max_workers": 2}, None),
    ],
)
def test_several_workers_on_one_gpu_are_refused(
    tmp_path: Path, values: dict[str, Any], scaling: dict[str, Any], workers: int | None
) -> None:
    recipe = parse_recipe(values | {"scaling": scaling}, "recipe")
    with pytest.raises(RecipeError, match=r"gpus_per_worker: .*NCCL.*one worker"):
        train(recipe, tmp_path / "run", workers=workers)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("task", "patience"), [("tagger", None), ("tagger", 1), ("standardizer", None), ("standardizer", 1)]
)
def test_patience_without_a_development_set_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, task: str, patience: int | None
) -> None:
    if task == "standardizer":
        values = small_recipe(tmp_path, training={"epochs": 1, "patience": patience})
        del values["mentions"]["dev"]
    else:
        values = tiny_recipe(tmp_path, task, epochs=1, patience=patience)
        values["corpus"]["dev"] = []
    result = train(parse_recipe(values, "test"), tmp_path / "run")
    assert (result["metrics"], result.get("best_step")) == ({}, None)
    assert ("training.patience waits for scores" in caplog.text) == (patience is not None)


def test_a_setting_without_effect_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = tiny_recipe(tmp_path, "tagger", epochs=1)
    values["corpus"] |= {"labels": {"case": "exact"}, "train": ["nowhere"]}
    with pytest.raises(RecipeError, match="nowhere does not exist"):
        train(parse_recipe(values, "test"), tmp_path / "run")
    assert caplog.messages == ["corpus.labels has no effect: corpus.dictionary is not set"]


@pytest.mark.parametrize(
    ("scaling", "workers", "told"),
    [({}, None, True), ({}, 2, False), ({"workers": 2}, None, False), ({"workers": 2}, 0, True)],
)
def test_an_elastic_run_without_workers_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, scaling: dict[str, Any], workers: int | None, told: bool
) -> None:
    values = tiny_recipe(tmp_path, "tagger") | {"scaling": {"max_workers": 4, **scaling}}
    values["corpus"] |= {"train": ["nowhere"]}
    with pytest.raises(RecipeError, match="nowhere does not exist"):
        train(parse_recipe(values, "test"), tmp_path / "run", workers=workers)
    assert ("scaling.max_workers has no effect" in caplog.text) == told


@pytest.mark.parametrize(
    ("scaling", "sees_gpu", "told"),
    [
        ({"workers": 2}, True, ["there is a GPU, and the 2 workers compute on CPUs"]),
        ({"workers": 1, "gpus_per_worker": 1}, True, []),
        ({"workers": 2}, False, []),
        ({}, True, []),
    ],
)
def test_workers_that_leave_a_gpu_idle_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    scaling: dict[str, Any],
    sees_gpu: bool,
    told: list[str],
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: sees_gpu)
    values = tiny_recipe(tmp_path, "tagger") | {"scaling": scaling}
    values["corpus"] |= {"train": ["nowhere"]}
    with pytest.raises(RecipeError, match="nowhere does not exist"):
        train(parse_recipe(values, "test"), tmp_path / "run")
    assert [message.partition(":")[0] for message in caplog.messages if "GPU" in message] == told


def test_several_evaluations_without_a_development_set_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = tiny_recipe(tmp_path, "tagger", epochs=1, evaluations_per_epoch=2)
    values["corpus"]["dev"] = []
    train(parse_recipe(values, "test"), tmp_path / "run")
    assert "training.evaluations_per_epoch has no effect: there is no development set" in caplog.text


def test_types_that_the_corpus_decides_are_found_with_what_is_seen_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = tiny_recipe(tmp_path, "typer", epochs=1)
    types = [*values.pop("types"), {"name": "/other/kind"}]
    caches: list[Path | None] = []
    read = CorpusTask.units

    def units(self: Any, split: Any, mapper: Any = map, cache: Path | None = None) -> Any:
        caches.append(cache)
        return read(self, split, mapper, cache)

    monkeypatch.setattr(CorpusTask, "units", units)
    train(parse_recipe(values, "recipe"), tmp_path / "found", workers=0)
    assert caches
    assert None not in caches, "the corpus was read by one process, and what it saw was not kept"
    train(parse_recipe(values | {"types": types}, "recipe"), tmp_path / "listed", workers=0)
    said = [record.getMessage() for record in caplog.records if "above some of them" in record.getMessage()]
    assert len(said) == 1
