"""Commands whose files and folders are at URIs, over HTTP."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import rayner
from rayner.cli.job import needs_of
from rayner.data.example_sets import ExampleSet
from rayner.data.knowledge_bases import read_knowledge_base
from rayner.errors import StorageError
from rayner.files.fetching import local
from rayner.files.publishing import Publication
from rayner.models.sources import locate
from rayner.retrieval.index_folder import open_index
from rayner.runtime.training import example_building
from rayner.runtime.training import train as training
from rayner.serving.application_settings import ModelSettings
from rayner.serving.models import load_models
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import load_recipe, parse_recipe, train_task
from tests.object_storage import BUCKET, Storage

HOME = f"s3://{BUCKET}"
SMALL = ("encoder=random:16x1", "training.epochs=1", "training.checkpoint_every=2")
Run = Callable[..., tuple[int, str, str]]


def upload(storage: Storage, folder: Path, name: str) -> str:
    """Put a file, or the files of a folder, in place as other tools do; the URI."""
    files = [path for path in (folder, *folder.rglob("*")) if path.is_file()]
    for path in files:
        below = "" if path == folder else f"/{path.relative_to(folder).as_posix()}"
        obstore.put(storage.store(), name + below, path)
    return f"{HOME}/{name}"


@pytest.fixture
def corpus(storage: Storage, examples: Path) -> str:
    return upload(storage, examples / "dev.jsonl", "corpus/dev.jsonl")


def settings(corpus: object) -> list[str]:
    return [*SMALL, f"corpus.train=[{corpus}]", f"corpus.dev=[{corpus}]"]


def sets(corpus: object) -> list[str]:
    return [argument for setting in settings(corpus) for argument in ("--set", setting)]


def result(run: Run, *arguments: object) -> dict[str, Any]:
    status, out, err = run(*arguments, "--json")
    assert status == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.mark.usefixtures("one_moment", "undrawn")
def test_a_run_at_a_uri_and_what_is_made_of_it(
    storage: Storage, corpus: str, examples: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{HOME}/runs/one"
    trained = result(run, "train", examples / "recipe.yaml", *sets(corpus), "--out", place, "--workers", "0")
    assert trained["checkpoint"] == f"{place}/best"
    # Another machine has nothing of it.
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    again = result(run, "train", examples / "recipe.yaml", *sets(corpus), "--out", place, "--workers", "0")
    assert again == trained
    best = f"{place}/best"
    scores = result(run, "evaluate", best, corpus)
    assert scores["f1"] == trained["metrics"]["f1"]
    (document,) = rayner.load(best).predict(["We use Python and Redis."])
    assert document.text
    served = load_models(ModelSettings(checkpoint=place), 4)
    assert served.unnamed is not None
    assert [stage.checkpoint for stage in served.unnamed.pipeline.settings.stages] == [Path.cwd() / best]
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text("stages:\n  - checkpoint: ../runs/one/best\n")
    at_uri = upload(storage, pipeline, "pipelines/p.yaml")
    assert result(run, "evaluate", at_uri, corpus)["f1"] == scores["f1"]
    counts = result(run, "annotate", best, corpus, "--out", f"{HOME}/annotated", "--workers", "0")
    assert counts["documents"] > 0
    assert counts["rejected"] == 0
    assert [key for key in storage.objects("annotated/") if key.endswith(".parquet")]
    types = [{"name": "SOFTWARE", "description": "programs"}]
    values = {"task": "tagger", "encoder": best, "types": types, "corpus": {"train": [corpus]}}
    started: Any = train_task(parse_recipe(values, "recipe")).build()
    theirs = load_file(local(Path(best)) / "encoder" / "model.safetensors")
    ours = started.text_encoder.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    page = tmp_path / "report.html"
    result(run, "report", place, "--out", page)
    assert "<html" in page.read_text()
    assert result(run, "report", place, "--out", f"{HOME}/report.html")["report"] == f"{HOME}/report.html"
    assert storage_get(storage, "report.html").decode() == page.read_text()
    status, _, err = run("report", place)
    assert (status, err.count("\n")) == (2, 1)


def test_a_killed_run_goes_on_on_another_machine(
    storage: Storage, corpus: str, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recipe() -> Any:
        return load_recipe(examples / "recipe.yaml", settings(corpus))

    whole = training.train(recipe(), tmp_path / "whole", workers=0)
    place, pushes, push = Path(f"{HOME}/runs/killed"), 0, Publication.push

    def dies(self: Publication) -> None:
        nonlocal pushes
        pushes += 1
        if pushes == 2:
            storage.fault = lambda method, path: "503" if method == "PUT" else None
        push(self)

    with monkeypatch.context() as patch:
        patch.setattr(Publication, "push", dies)
        with pytest.raises(StorageError, match="cannot be"):
            training.train(recipe(), place, workers=0)
    storage.works()
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    found = json.loads((local(place) / "last/state/state.json").read_text())
    assert 0 < found["step"] < found["steps"]
    resumed = training.train(recipe(), place, workers=0)
    assert resumed["steps"] == whole["steps"]
    for name in ("last", "best"):
        ours, theirs = (
            load_file(folder / name / "encoder" / "model.safetensors")
            for folder in (local(place), tmp_path / "whole")
        )
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    # Nothing of the first state, and no temporary file.
    named = json.loads(storage_get(storage, "runs/killed/_manifest.json"))["files"]
    assert sorted({entry["object"] for entry in named.values()} | {"_manifest.json"}) == [
        key.removeprefix("runs/killed/") for key in storage.objects("runs/killed/")
    ]
    assert not [name for name in named if name.endswith((".lock", ".partial")) or ".examples" in name]


def test_example_sets_at_a_uri_are_built_once(
    storage: Storage, corpus: str, examples: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYNER_CACHE", f"{HOME}/cache")
    monkeypatch.chdir(tmp_path)
    given = ("train", examples / "recipe.yaml", *sets(corpus), "--workers", "0", "--out")
    first = result(run, *given, tmp_path / "first")
    put = storage.objects("cache/")
    assert [key for key in put if key.endswith("_manifest.json")]
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    monkeypatch.setattr(example_building, "_build", None)
    assert result(run, *given, f"{HOME}/runs/second")["metrics"] == first["metrics"]
    assert storage.objects("cache/") == put
    assert not (tmp_path / "s3:").exists()
    # Another machine, to which a worker's set is sent as the path that it had here.
    (folder,) = (tmp_path / "other").rglob("examples-*.parquet")
    there = pickle.dumps(ExampleSet(folder.parent))
    shutil.rmtree(tmp_path / "other")
    assert len(pickle.loads(there)) > 0


def test_of_two_that_build_a_set_the_first_stays(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publications = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
        publications.append(Publication(f"{HOME}/once"))
    second = publications[1]._push

    def slower(folder: Path) -> None:
        publications[0].put_first(tmp_path / "one")
        second(folder)

    monkeypatch.setattr(publications[1], "_push", slower)
    publications[1].put_first(tmp_path / "two")
    assert local(f"{HOME}/once/a.txt").read_text() == "one"
    assert len(storage.objects("once/")) == 2


def test_where_runs_go_by_default_may_be_a_uri_and_the_own_disk_none(
    storage: Storage, corpus: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYNER_STORAGE", f"{HOME}/default")
    found = result(run, "doctor")["storage"]
    assert found == {"out": f"{HOME}/default/runs", "writable": True, "free_bytes": None}
    assert storage.objects("default/") == []
    monkeypatch.setenv("RAYNER_LOCAL", f"{HOME}/local")
    status, _, err = run("report", corpus, "--out", tmp_path / "x.html")
    what = "is a URI; name a folder of this machine's own disk"
    assert (status, err) == (2, f"error: RAYNER_LOCAL={HOME}/local: {what}\n")


def test_storage_that_ignores_conditions_is_found_by_the_doctor(
    storage: Storage, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda *given, mode=None: put(*given))
    status, out, _ = run("doctor", "--out", f"{HOME}/old", "--json")
    assert status == 1
    assert "ignores the conditions of writes" in out


def test_a_job_asks_for_what_a_checkpoint_at_a_uri_needs(
    storage: Storage, trained: Path, tmp_path: Path
) -> None:
    recipe = yaml.safe_load((trained / "best/recipe.yaml").read_text()) | {"scaling": {"cpus_per_worker": 3}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    (tmp_path / "pipeline.yaml").write_text("stages: [{checkpoint: ../of_jobs/best}]")
    upload(storage, tmp_path / "recipe.yaml", "of_jobs/best/recipe.yaml")
    pipeline = upload(storage, tmp_path / "pipeline.yaml", "of_pipelines/p.yaml")
    for given in (f"{HOME}/of_jobs/best", pipeline):
        assert needs_of(["evaluate", given, f"{HOME}/corpus"])[0].cpus_per_worker == 3


def test_a_service_looks_at_a_uri_again(
    storage: Storage, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who serves a run keeps what was there until told to look again, and then has what is there now."""
    place = f"{HOME}/served"
    publication = Publication(place)
    publication.open()
    shutil.copytree(trained, publication.folder, dirs_exist_ok=True)
    publication.push()
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "replica"))
    before = load_models(ModelSettings(checkpoint=place), 4)
    assert before.unnamed is not None
    path = publication.folder / "best/checkpoint.json"
    about = json.loads(path.read_text())
    weights = publication.folder / "best/encoder/model.safetensors"
    values = {name: tensor + 1 for name, tensor in load_file(weights).items()}
    weights.unlink()
    save_file(values, weights)
    about["files"]["encoder/model.safetensors"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    path.write_text(json.dumps(about))
    publication.push()
    after = load_models(ModelSettings(checkpoint=place, revision="2"), 4, before)
    assert after.unnamed is not None
    versions = [model.pipeline.versions() for model in (before.unnamed, after.unnamed)]
    assert versions[0] != versions[1]


def test_a_training_that_is_taken_over_stops(
    storage: Storage, corpus: str, examples: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, push = f"{HOME}/runs/taken", Publication.push

    def pushed(self: Publication) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Publication, "push", push)
            patch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
            Publication(place).open()
        push(self)

    monkeypatch.setattr(Publication, "push", pushed)
    arguments = ("train", examples / "recipe.yaml", *sets(corpus), "--out", place, "--workers", "0")
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert f"error: {place}: is written by another process" in err.splitlines()[-1]


def storage_get(storage: Storage, key: str) -> bytes:
    return bytes(obstore.get(storage.store(), key).bytes())


def test_corpora_and_knowledge_bases_at_uris(
    storage: Storage, corpus: str, examples: Path, run: Run, tmp_path: Path
) -> None:
    counts = result(run, "corpus", "convert", corpus, "--out", f"{HOME}/converted")
    assert result(run, "corpus", "convert", corpus, "--out", f"{HOME}/converted") == counts
    found = result(run, "corpus", "check", f"{HOME}/converted")
    assert found["documents"] == counts["documents"]
    base = next(path for path in examples.iterdir() if "entit" in path.name or "knowledge" in path.name)
    at_uri = upload(storage, base, f"bases/{base.name}")
    converted = result(run, "kb", "convert", at_uri, "--out", tmp_path / "base.parquet")
    assert converted["entities"] == len(read_knowledge_base(tmp_path / "base.parquet").entities)
    again = result(run, "kb", "convert", at_uri, "--out", f"{HOME}/base.parquet")
    assert again == converted
    assert storage_get(storage, "base.parquet") == (tmp_path / "base.parquet").read_bytes()
    assert storage_get(storage, "base.parquet.rejects.jsonl") == b""
    chains = result(run, "corpus", "resolve", corpus, "--resolver", "rules", "--out", f"{HOME}/chains")
    assert result(run, "corpus", "check", f"{HOME}/chains")["documents"] == chains["documents"]
    result(run, "corpus", "contexts", corpus, "--out", f"{HOME}/pairs")
    assert local(f"{HOME}/pairs/rows.jsonl").read_text()


@pytest.fixture
def standardizer(storage: Storage, tmp_path: Path) -> str:
    torch.manual_seed(1)
    values = {"task": "standardizer", "encoder": "random:32x2", "knowledge_base": {"paths": ["nowhere"]}}
    recipe = parse_recipe(values, "test")
    task = train_task(recipe)
    save_checkpoint(tmp_path / "best", task, task.build(), {})
    return upload(storage, tmp_path / "best", "standardizer/best")


def rows(storage: Storage, tmp_path: Path, name: str, *values: dict[str, Any]) -> str:
    path = tmp_path / name
    path.write_text("".join(json.dumps(row) + "\n" for row in values), "utf-8")
    return upload(storage, path, f"rows/{name}")


def test_an_index_at_a_uri(
    storage: Storage, standardizer: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = rows(storage, tmp_path, "base.jsonl", {"entity_id": "C1", "name": "gout", "aliases": ["podagra"]})
    more = rows(storage, tmp_path, "more.jsonl", {"entity_id": "C2", "name": "asthma"})
    place = f"{HOME}/index"
    built = result(run, "index", "build", standardizer, base, "--out", place)
    assert (built["index"], built["version"]) == (place, 1)
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    assert result(run, "index", "add", place, more)["version"] == 2
    listed = result(run, "index", "list", place)
    assert [row["entity_id"] for row in listed["listed"]] == ["C1", "C2"]
    assert listed["checkpoint"] == standardizer
    mentions = rows(storage, tmp_path, "mentions.jsonl", {"mention": "asthma"}, {"mention": "podagra"})
    answers = result(run, "standardize", standardizer, mentions, "--index", place)["answers"]
    assert [answer["candidates"][0]["entity_id"] for answer in answers] == ["C2", "C1"]
    assert locate(standardizer).kind == "checkpoint"
    assert result(run, "index", "remove", place, "C1")["entities"] == 1
    assert open_index(Path(place)).version == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("evaluate", "s3://nowhere/best", "{corpus}"), "s3://nowhere/best: there is no such bucket"),
        (("evaluate", f"{HOME}/none/best", "{corpus}"), "s3://tests/none/best: no such file or folder"),
        (("corpus", "check", f"{HOME}/none"), "no such file or folder"),
        (("train", "{recipe}", "--out", "s3://nowhere/run"), "s3://nowhere/run: there is no such bucket"),
        (("train", "{recipe}", "--out", "memory://x/run"), "has no conditional writes"),
        (("train", "{recipe}", "--out", "s3://AKID:verysecret@tests/run"), "holds credentials"),
        (("train", "{recipe}", "--set", "corpus.train=[s3://AKID:verysecret@tests/c]"), "holds credentials"),
        (("evaluate", "s3://AKID:verysecret@tests/c", "{corpus}"), "holds credentials"),
        (("evaluate", "{corpus}", "{corpus}"), "error: s3://tests/corpus/dev.jsonl:2: not valid YAML"),
    ],
)
def test_what_is_wrong_is_one_line(
    storage: Storage,
    corpus: str,
    examples: Path,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [a.format(corpus=corpus, recipe=examples / "recipe.yaml") for a in arguments]
    status, out, err = run(*given)
    assert (status, out) == (2, "")
    assert named in err
    assert err.count("\n") == 1
    assert "verysecret" not in err
    for path in tmp_path.rglob("*"):
        assert "verysecret" not in path.name
        assert not path.is_file() or b"verysecret" not in path.read_bytes()
