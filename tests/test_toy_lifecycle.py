"""A task of another package goes through every command, though nothing in rayner knows of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from fastapi.testclient import TestClient

import rayner
from rayner.cli import main
from rayner.runtime.sweeps.space import load_space
from rayner.runtime.sweeps.sweep import sweep
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.serving.application_settings import ApplicationSettings, ModelSettings
from rayner.serving.http import create_app
from rayner.serving.service import Service
from rayner.tasks.registry import load_recipe
from tests.runtime.training.several_workers import tiny_recipe

SPACE = """
from ray import tune

TASK = "toy"


def space():
    return {"training.head_learning_rate": tune.grid_search([1e-5, 3e-2])}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> dict[str, Any]:
    """The JSON that a command prints."""
    with pytest.raises(SystemExit) as exited:
        main([*map(str, arguments), "--json"])
    printed = capsys.readouterr()
    assert exited.value.code == 0, printed.err
    return json.loads(printed.out.splitlines()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe of the task on disk, with a corpus of one type."""
    folder = tmp_path_factory.mktemp("toy")
    values = tiny_recipe(folder, "toy", epochs=12, head_learning_rate=0.03)
    values["types"] = values["types"][1:]
    del values["model"]
    (folder / "toy.yaml").write_text(yaml.safe_dump(values))
    return folder


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> Path:
    """What `rayner train` leaves."""
    with pytest.raises(SystemExit) as exited:
        main(["train", str(folder / "toy.yaml"), "--out", str(folder / "run"), "--json"])
    assert exited.value.code == 0
    return folder / "run/best"


@pytest.mark.usefixtures("undrawn")
def test_it_is_evaluated_annotated_and_reported(
    checkpoint: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = folder / "corpus.jsonl"
    metrics = run(capsys, "evaluate", checkpoint, corpus)
    assert metrics["f1"] > 0.3
    assert set(metrics["per_type"]) == {"LOC"}
    assert metrics["intervals"]["f1"][0] <= metrics["f1"] <= metrics["intervals"]["f1"][1]
    counts = run(capsys, "annotate", checkpoint, corpus, "--out", folder / "annotated", "--workers", 0)
    assert counts["documents"] == 30
    assert counts["mentions"] > 0
    texts = [json.loads(line)["text"] for line in corpus.read_text().splitlines()]
    expected = [len(d.mentions) for d in rayner.load(checkpoint, "cpu").predict(texts)]
    rows = sorted(pq.read_table(folder / "annotated").to_pylist(), key=lambda row: int(row["document_id"]))
    assert [len(row["mentions"]) for row in rows] == expected
    page = Path(run(capsys, "report", folder / "run")["report"]).read_text()
    assert "LOC" in page
    assert "Scores" in page
    assert "A toy made with rayner" in (checkpoint / "README.md").read_text()


def test_a_pipeline_file_has_it_as_a_stage(checkpoint: Path, folder: Path) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"stages": [{"checkpoint": "run/best"}]}))
    text = "Ada went to Oslo."
    assert rayner.load(path).predict([text]) == rayner.load(checkpoint).predict([text])


def test_it_answers_over_http(checkpoint: Path) -> None:
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(ModelSettings(checkpoint=str(checkpoint))))
    client = TestClient(create_app(service))
    reply = client.post("/v1/recognize", json={"documents": [{"text": "Ada went to Oslo."}]})
    assert reply.status_code == 200, reply.text
    (expected,) = rayner.load(checkpoint, "cpu").predict(["Ada went to Oslo."])
    found = [(m["start"], m["end"], m["type"]) for m in reply.json()["documents"][0]["mentions"]]
    assert found == [(m.start, m.end, m.type) for m in expected.mentions]
    refused = client.post("/v1/recognize", json={"documents": [{"text": "a"}], "shift": 1.0})
    assert (refused.status_code, refused.json()["detail"][0]["field"]) == (422, "shift")


@pytest.mark.usefixtures("ray_cluster")
def test_it_is_swept(folder: Path) -> None:
    (folder / "space.py").write_text(SPACE)
    recipe = load_recipe(folder / "toy.yaml", ["training.epochs=3"])
    # One after the other: they share a process.
    settings = sweep_settings(objectives=objectives(["f1"], recipe), search="grid", max_concurrent=1)
    result = sweep(load_space(str(folder / "space.py")), recipe, folder / "sweep", settings)
    assert result["trials"] == {"finished": 2}
    assert result["settings"] == {"training.head_learning_rate": 3e-2}
    assert load_recipe(result["best"]).training.head_learning_rate == 3e-2
