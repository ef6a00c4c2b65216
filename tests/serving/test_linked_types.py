"""The types of a service's knowledge bases, and those that its models find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rayner.errors import RecipeError
from rayner.serving.application_settings import ModelSettings
from rayner.serving.launch import checked
from rayner.serving.models import load_models
from tests.serving.checkpoints import PEOPLE, recognizer_folder, standardizer_folder, tagger_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tagger_folder(folder / "tagger")
    recognizer_folder(folder / "recognizer", 1)
    standardizer_folder(folder / "people", PEOPLE)
    return folder


def values_of(folder: Path, types: list[str], **models: str) -> dict[str, Any]:
    people = {"index": str(folder / "people/index"), "standardizer": str(folder / "people/best")}
    named = {name: str(folder / path) for name, path in models.items()}
    return {"models": named, "knowledge_bases": {"people": {**people, "types": types}}}


def written(path: Path, values: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(values))
    return path


def test_a_type_that_no_model_finds_is_told_before_anything_is_loaded(folder: Path, tmp_path: Path) -> None:
    values = values_of(folder, ["PER", "PRE"], a="tagger")
    message = "people.types: no model of the service finds 'PRE'; the types are LOC, ORG, PER$"
    with pytest.raises(RecipeError, match=message):
        checked(written(tmp_path / "serve.yaml", values))
    with pytest.raises(RecipeError, match=message):
        load_models(ModelSettings.model_validate(values), 4, device="cpu")
    checked(written(tmp_path / "serve.yaml", values_of(folder, ["PER"], a="tagger")))


def test_a_type_that_requests_may_ask_for_is_a_warning(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "serve.yaml"
    checked(written(path, values_of(folder, ["PRE"])))
    checked(written(path, values_of(folder, ["PER"], a="recognizer")))
    assert "knowledge_bases" not in caplog.text
    checked(written(path, values_of(folder, ["PRE"], a="tagger", b="recognizer")))
    (told,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert told.startswith("knowledge_bases.people.types: no model of the service finds 'PRE'; the types are")
    assert told.endswith("PER, and those that requests name")
