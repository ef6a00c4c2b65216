"""Files that are replaced while a service loads them: what answers has the version that replies name."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rayner.data.schema import Entity
from rayner.retrieval.index_folder import remove_entities, version_of_index
from rayner.serving.application_settings import ApplicationSettings, BatchingSettings, ModelSettings
from rayner.serving.models import Models
from rayner.serving.service import Service
from rayner.serving.stage_service import StageService
from rayner.tasks.checkpoint import load_checkpoint, version_of
from tests.serving.checkpoints import PEOPLE, recognizer_folder, standardizer_folder

ENTITIES = (*PEOPLE, Entity("noether", "Emmy Noether"))


def loaded(settings: ModelSettings) -> Models:
    service = Service(ApplicationSettings(), device="cpu")
    asyncio.run(service.load(settings))
    return service.models


def once(before: Callable[..., Any], change: Callable[[], Any]) -> Callable[..., Any]:
    """The function, after whose first call something changes."""
    changes = [change]

    def called(*given: Any, **named: Any) -> Any:
        found = before(*given, **named)
        if changes:
            changes.pop()()
        return found

    return called


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], None]:
    def changing(name: str, change: Callable[[], Any]) -> None:
        module, _, function = name.rpartition(".")
        found = __import__(module, fromlist=[function])
        monkeypatch.setattr(found, function, once(getattr(found, function), change))

    return changing


@pytest.mark.parametrize("in_file", [True, False])
def test_an_index_that_changes_while_it_is_opened(tmp_path: Path, changing: Any, in_file: bool) -> None:
    people, index = standardizer_folder(tmp_path / "kb", ENTITIES)
    settings = ModelSettings.model_validate(
        {"knowledge_bases": {"index": {"index": str(index), "standardizer": str(people)}}}
    )
    if in_file:
        recognizer_folder(tmp_path / "recognizer")
        stages = [{"checkpoint": "recognizer"}, {"checkpoint": "kb/best", "index": "kb/index"}]
        (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
        settings = ModelSettings(checkpoint=str(tmp_path / "pipeline.yaml"))
    opened = "rayner.tasks.standardizer.task.open_index"
    changing(opened, lambda: remove_entities(index, ["noether"]))
    served = loaded(settings).knowledge_bases["index"]
    assert served.versions.index == version_of_index(index)
    assert served.about.entities == len(PEOPLE)


def test_a_checkpoint_that_is_replaced_while_it_is_loaded(tmp_path: Path, changing: Any) -> None:
    folder = recognizer_folder(tmp_path / "recognizer")
    before = version_of(folder)

    def replaced() -> None:
        shutil.rmtree(folder)
        recognizer_folder(folder, 10)

    changing("rayner.serving.models.load_checkpoint", replaced)
    (stage,) = loaded(ModelSettings(checkpoint=str(folder))).pipelines[0].stages
    assert stage.version == version_of(folder) != before
    expected = load_checkpoint(folder, "cpu").model.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in stage.loaded.model.state_dict().items())


@pytest.mark.parametrize("in_file", [True, False])
def test_files_that_are_replaced_afterwards_are_not_what_answers(tmp_path: Path, in_file: bool) -> None:
    folder = recognizer_folder(tmp_path / "recognizer")
    _, index = standardizer_folder(tmp_path / "kb", ENTITIES)
    stages = [{"checkpoint": "recognizer"}, {"checkpoint": "kb/best", "index": "kb/index"}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    models = loaded(ModelSettings(checkpoint=str(tmp_path / "pipeline.yaml" if in_file else folder)))
    before = models.describe(None)
    assert before.stages[0].version == version_of(folder)
    recognizer_folder(folder, 10)
    remove_entities(index, ["noether"])
    assert models.describe(None) == before
    shutil.rmtree(folder)
    assert models.describe(None) == before


def test_a_stage_of_its_own_is_known_by_what_it_has(tmp_path: Path, changing: Any) -> None:
    standardizer_folder(tmp_path / "kb", ENTITIES)
    recognizer_folder(tmp_path / "recognizer")
    stages = [{"checkpoint": "recognizer"}, {"checkpoint": "kb/best", "index": "kb/index"}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    models = ModelSettings(checkpoint=str(tmp_path / "pipeline.yaml"))
    changing(
        "rayner.tasks.standardizer.task.open_index",
        lambda: remove_entities(tmp_path / "kb/index", ["noether"]),
    )
    about, later = (
        asyncio.run(StageService(models, 1, BatchingSettings(), device="cpu").about()) for _ in range(2)
    )
    assert about == later
    assert about.knowledge_base is not None
    assert about.knowledge_base.entities == len(PEOPLE)
