"""A stage of entities of another package, which looks nothing up in an index."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rayner.data.schema import Document, Mention
from rayner.serving.application_settings import ModelSettings
from rayner.serving.models import load_models
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.end_to_end import evaluate_end_to_end
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.predict import stages_of
from rayner.tasks.registry import Task, parse_recipe, task_of, train_task
from rayner.tasks.stages import load_pipeline
from tests import toy
from tests.tasks.small import BASE, TYPES


class Gazetteer(toy.ToyPredictor):
    """Every mention is the entity that its letters spell."""

    whole = True

    def prepare(self, item: Document) -> list[Any]:
        return []

    def finish(self, item: Document, windows: Sequence[Any], scores: Sequence[Any]) -> Document:
        found = (replace(m, entity_id=item.text[m.start : m.end].lower()) for m in item.mentions)
        return replace(item, mentions=tuple(found))

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        return {"gazetteer": 0.5}


class Scored(Gazetteer):
    def links(self, mention: Mention) -> bool:
        return True

    def right_ids(self, mention: Mention) -> tuple[tuple[str, ...], bool]:
        return (mention.entity_id,) if mention.entity_id else (), bool(mention.entity_id)

    def names_of(self, ids: Collection[str]) -> dict[str, str]:
        return {id_: id_.title() for id_ in ids}


class ListRecipe(toy.ToyRecipe):
    task: str = "gazetteer"  # type: ignore[assignment]


class ScoredRecipe(toy.ToyRecipe):
    task: str = "scored"  # type: ignore[assignment]


def record(name: str, recipe: type[toy.ToyRecipe], stage: type[Gazetteer]) -> Task:
    def as_stage(predictor: Any, options: Any) -> Any:
        return stage(predictor.task, predictor.model)

    return Task(name, recipe, toy.ToyTask, Documents(), stage="entities", as_stage=as_stage)


GAZETTEER = record("gazetteer", ListRecipe, Gazetteer)
SCORED = record("scored", ScoredRecipe, Scored)
TEXTS = ("Ada went to Oslo and on to Rome by the last train of the year.", "Oslo and Ada met by the sea.")


@pytest.fixture
def path(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline file of the toy task and stages of entities."""
    outside = f"{__name__}:GAZETTEER,{__name__}:SCORED"
    monkeypatch.setenv("RAYNER_TASKS", f"tests.toy:TOY,{outside}")
    names = ("toy", *request.param)
    for name in names:
        values = {"task": name, "encoder": BASE["encoder"], "corpus": BASE["corpus"], "types": TYPES[:1]}
        recipe = parse_recipe(values, "test")
        torch.manual_seed(0)
        task = train_task(recipe)
        save_checkpoint(tmp_path / name, task, task.build(), {})
    (tmp_path / "pipeline.yaml").write_text(
        yaml.safe_dump({"stages": [{"checkpoint": name} for name in names]})
    )
    return tmp_path / "pipeline.yaml"


@pytest.mark.parametrize("path", [("gazetteer",), ("scored",), ("gazetteer", "scored")], indirect=True)
def test_it_is_loaded_evaluated_and_served(path: Path, request: pytest.FixtureRequest) -> None:
    pipeline = load_pipeline(path, "cpu")
    documents = [Document(str(n), text) for n, text in enumerate(TEXTS)]
    # What the untrained toy finds is gold, linked as the gazetteer links it, and one mention wrong.
    predicted = list(pipeline.predict(documents))
    assert sum(len(d.mentions) for d in predicted) > 3
    assert all(m.entity_id for d in predicted for m in d.mentions)
    first, *others = predicted[0].mentions
    gold = [replace(predicted[0], mentions=(replace(first, entity_id="other"), *others)), predicted[1]]
    metrics = pipeline.predictor.evaluate(predicted, gold)
    names = [stage.record.name for stage in pipeline.settings.stages]
    assert metrics["f1"] == 1
    assert ("gazetteer" in metrics) == ("gazetteer" in names)
    assert ("linked_f1" in metrics) == ("scored" in names)
    assert metrics.get("linked_f1", 0.5) < 1
    assert pipeline.entity_names(["oslo"]) == ({"oslo": "Oslo"} if "scored" in names else {})
    on_gold = list(pipeline.predict(gold))
    whole = evaluate_end_to_end(stages_of(pipeline.predictor), gold, predicted, on_gold, intervals=False)
    assert "levels" in whole.scores

    models = load_models(ModelSettings(checkpoint=str(path)), 2, device="cpu")
    (served,) = models.pipelines
    assert [task_of(s.record.name).stage for s in served.settings.stages][1:] == ["entities"] * (
        len(names) - 1
    )
    versions = models.versions(served.versions())
    assert versions.recognizer == served.stages[0].version
    assert versions.entities == "+".join(stage.version for stage in served.stages[1:])
    assert models.flat_versions() == {"recognizer": versions.recognizer, "entities": versions.entities}
