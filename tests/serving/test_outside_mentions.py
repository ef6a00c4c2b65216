"""A stage of mentions of another package, whose recipe lists no types and has no windows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from fastapi.testclient import TestClient

from rayner.config import BaseRecipe, CorpusSettings
from rayner.data.schema import Document, Mention, document_to_row
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.serving.application_settings import ModelSettings
from rayner.serving.models import check_linked_types
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.registry import Task, parse_recipe, train_task
from rayner.tasks.stages import read_pipeline
from tests import toy
from tests.serving.running import client_of


class CapitalsRecipe(BaseRecipe):
    task: Literal["capitals"]
    corpus: CorpusSettings
    dropout: float = 0.0


class Capitals(toy.ToyPredictor):
    """Every word with a capital is a name."""

    def __init__(self, task: Any, model: Any) -> None:
        self.names = ["NAME"]

    def prepare(self, item: Document) -> list[Any]:
        return []

    def finish(self, item: Document, windows: Sequence[Any], scores: Sequence[Any]) -> Document:
        found = re.finditer("[A-Z][a-z]+", item.text)
        return replace(item, mentions=tuple(Mention(*m.span(), "NAME", score=1.0) for m in found))


class CapitalsTask(toy.ToyTask):
    def predictor(self, model: Any, options: Any = None) -> Capitals:
        return Capitals(self, model)


class Texts(Documents):
    name = "texts"


CAPITALS = Task("capitals", CapitalsRecipe, CapitalsTask, Texts(), stage="mentions")


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAYNER_TASKS", f"{__name__}:CAPITALS")
    values = {"task": "capitals", "encoder": "random:32x2", "corpus": {"train": ["nowhere"]}}
    task = train_task(parse_recipe(values, "test"))
    save_checkpoint(tmp_path / "capitals", task, task.build(), {})
    return tmp_path / "capitals"


@pytest.fixture
def client(checkpoint: Path) -> TestClient:
    return client_of(ModelSettings(checkpoint=str(checkpoint)))


def test_it_is_served_by_what_its_predictor_says(client: TestClient) -> None:
    body = {"documents": [{"text": "then Ada slept."}]}
    (document,) = client.post("/v1/recognize", json=body).json()["documents"]
    assert [(m["text"], m["type"]) for m in document["mentions"]] == [("Ada", "NAME")]
    told = client.get("/v1/models").json()["recognizer"]
    assert told["types"] == [{"name": "NAME", "description": None}]
    assert (told["window_length"], told["window_overlap"], told["options"]) == (None, None, [])


def test_its_readme_lists_no_types(checkpoint: Path) -> None:
    assert "## Types" not in (checkpoint / "README.md").read_text("utf-8")


def test_types_to_link_may_be_any_where_a_recipe_lists_none(checkpoint: Path) -> None:
    people = {"index": "people/index", "standardizer": "people/best", "types": ["NAME"]}
    settings = ModelSettings.model_validate({"knowledge_bases": {"people": people}})
    assert check_linked_types([read_pipeline(checkpoint)], settings.knowledge_bases) is None


def test_a_pipeline_file_with_it_is_evaluated(checkpoint: Path, tmp_path: Path) -> None:
    (pipeline := tmp_path / "pipeline.yaml").write_text("stages: [{checkpoint: capitals}]\n")
    (corpus := tmp_path / "dev.jsonl").write_text(
        json.dumps(document_to_row(Document("d", "then Ada slept.", (Mention(5, 8, "NAME"),))))
    )
    assert evaluate(pipeline, corpus, device="cpu")["f1"] == 1
