"""Storage whose server is killed and started again in the middle of work, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rayner.cli import main
from rayner.files.fetching import local
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, train_task
from tests.object_storage import BUCKET, Storage
from tests.runtime.training.several_workers import tiny_recipe

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

HOME = f"s3://{BUCKET}/restarted"
EVERY = 20
"""Requests from one death of the server to the next."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe of the toy task, its corpus, an untrained standardizer, and entities of two files."""
    values = tiny_recipe(tmp_path, "toy", epochs=2, checkpoint_every=5, head_learning_rate=0.03)
    del values["model"]
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(values))
    small = {"task": "standardizer", "encoder": "random:32x2", "knowledge_base": {"paths": ["nowhere"]}}
    torch.manual_seed(1)
    recipe = parse_recipe(small, "standardizer")
    task = train_task(recipe)
    save_checkpoint(tmp_path / "standardizer", task, task.build(), {})
    for name, number in (("base", 1), ("more", 2)):
        row = {"entity_id": f"C{number}", "name": f"name {number}"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path


@pytest.fixture
def dies(storage: Storage) -> Iterator[list[str]]:
    """The server dies at every 20th request, whatever that asks for, and is back half a second later."""
    requests = iter(range(1, 10**9))
    died = storage.dies_at(lambda method, path: next(requests) % EVERY == 0)
    yield died
    storage.works()


def test_work_goes_on_when_the_server_is_killed_and_started_again(
    folder: Path, dies: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: Any) -> dict[str, Any]:
        before = len(dies)
        # Another machine each time: nothing of what is read is there already.
        monkeypatch.setenv("RAYNER_LOCAL", str(folder / f"machine-{before}"))
        with pytest.raises(SystemExit) as exited:
            main([*map(str, arguments), "--json"])
        printed = capsys.readouterr()
        assert exited.value.code == 0, printed.err
        return json.loads(printed.out.splitlines()[-1])

    corpus = folder / "corpus.jsonl"
    trained = run("train", folder / "toy.yaml", "--out", f"{HOME}/run", "--workers", 0)
    here = run("train", folder / "toy.yaml", "--out", folder / "run", "--workers", 0)
    assert (trained["metrics"], trained["steps"]) == (here["metrics"], here["steps"])
    run("corpus", "convert", corpus, "--out", f"{HOME}/corpus")
    best = f"{HOME}/run/best"
    assert run("evaluate", best, f"{HOME}/corpus")["f1"] == run("evaluate", best, corpus)["f1"]
    counts = run("annotate", best, f"{HOME}/corpus", "--out", f"{HOME}/annotated", "--workers", 0)
    assert (counts["documents"], counts["rejected"]) == (30, 0)
    standardizer, index = folder / "standardizer", f"{HOME}/index"
    run("index", "build", standardizer, folder / "base.jsonl", "--out", index)
    run("index", "add", index, folder / "more.jsonl", "--checkpoint", standardizer)
    listed = run("index", "list", index)
    assert (listed["version"], [row["entity_id"] for row in listed["listed"]]) == (2, ["C1", "C2"])
    assert len(dies) > 5
    monkeypatch.setenv("RAYNER_LOCAL", str(folder / "another"))
    for name in ("run", "corpus", "index"):
        assert any(local(f"{HOME}/{name}").iterdir())
