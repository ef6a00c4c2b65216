"""Contexts chosen by rerankers of Hugging Face: folders and ids, in recipes and in pipeline files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from rayner.config.base import Precision
from rayner.data.schema import Document
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.models.rerankers import load_reranker
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.contexts import in_recipes
from rayner.tasks.contexts.rankers import load_ranker, place_of_ranker
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.predict import predict
from rayner.tasks.stages import load_pipeline, read_pipeline
from tests.small_rerankers import cross_encoder, t5
from tests.tasks.small import DOCUMENTS, built, corpus, tagger

ID = "nobody/reranker"
COMMIT = "0" * 40
WINDOWS = {"length": 40, "overlap": 7, "context": 12}
CONTEXT = {"methods": ["before", "bm25", "after"], "candidates": 3, "count": 2}
BOOK = Document("0", " ".join(document.text for document in corpus(DOCUMENTS)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rerankers, and a checkpoint `given` that reads contexts."""
    folder = tmp_path_factory.mktemp("rankers")
    cross_encoder(folder / "bert", 2)
    t5(folder / "t5")
    task = tagger(windows=WINDOWS)
    save_checkpoint(folder / "given", task, built(task), {})
    return folder


@pytest.fixture
def cached(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of Hugging Face on a machine without a network, with a model."""
    model = tmp_path / "cache" / f"models--{ID.replace('/', '--')}"
    shutil.copytree(folder / "t5", model / "snapshots" / COMMIT)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return model


@torch.no_grad()
def one_by_one(settings: Any, folder: Path) -> list[dict[str, Any]]:
    """The book with the contexts of greatest score, each pair scored alone."""
    model = load_reranker(str(folder))
    found = ContextStage(settings).candidates(BOOK)
    spans = found.document.sentences or ()
    contexts = []
    for sentence, candidates in enumerate(found.of_sentence):
        texts = [BOOK.text[slice(*spans[place])] for place in (sentence, *(c.sentence for c in candidates))]
        scores = [
            float(model([model.pair(model.subwords(texts[0]), model.subwords(text))])[0])
            for text in texts[1:]
        ]
        best = sorted(range(len(scores)), key=lambda place: -scores[place])[: settings.count]
        contexts.append({texts[1 + place]: pytest.approx(scores[place], abs=1e-5) for place in best})
    return contexts


def read(document: Document) -> list[dict[str, float | None]]:
    return [{context.text: context.score for context in of} for of in document.sentence_contexts or ()]


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_a_pipeline_reads_the_contexts_that_a_reranker_scores_highest(folder: Path, name: str) -> None:
    stages = [{"checkpoint": "given", "context": {**CONTEXT, "ranker": name}}]
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    settings = read_pipeline(folder / "pipeline.yaml")
    settings.check()
    pipeline = settings.pipeline("cpu")
    own: Any = pipeline.checkpoints[0]
    assert own.task.contexts.ranker == folder / name
    document = pipeline.with_contexts(BOOK)
    assert read(document) == one_by_one(own.recipe.context, folder / name)
    assert {len(of) for of in read(document)} == {2}
    assert pipeline.predict([BOOK])[0].mentions == pipeline.predict([document])[0].mentions


def test_versions_and_examples_tell_rerankers_apart(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "given", tmp_path / "given")
    shutil.copytree(folder / "bert", tmp_path / "bert")
    cross_encoder(tmp_path / "other", 1)

    def version(name: str) -> tuple[str, Any]:
        stages = [{"checkpoint": "given", "context": {**CONTEXT, "ranker": name}}]
        (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
        task = tagger(windows=WINDOWS, context={**CONTEXT, "ranker": str(tmp_path / name)})
        return read_pipeline(tmp_path / "pipeline.yaml").version, task.example_settings()

    before, other = version("bert"), version("other")
    assert before[0] != other[0]
    assert before[1] != other[1]
    (tmp_path / "bert" / "README.md").write_text("About it.")
    assert version("bert") == before
    shutil.copy(tmp_path / "other" / "model.safetensors", tmp_path / "bert")
    assert version("bert")[0] != before[0]


def recipe_with(ranker: str, folder: Path) -> Document:
    """The book as a checkpoint reads it whose recipe names the ranker, which is then nowhere else."""
    task = tagger(windows=WINDOWS, context={**CONTEXT, "ranker": ranker})
    save_checkpoint(folder, task, built(task), {})
    loaded: Any = load_checkpoint(folder, "cpu")
    assert loaded.task.contexts.ranker == folder / "ranker"
    return loaded.task.contexts.of(BOOK)


def test_a_checkpoint_keeps_the_reranker_of_its_recipe(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "bert", tmp_path / "bert")
    (tmp_path / "bert" / "pytorch_model.bin").write_bytes(b"a pickle")
    task = tagger(windows=WINDOWS, context={**CONTEXT, "ranker": str(tmp_path / "bert")})
    assert task.contexts is not None
    expected = task.contexts.of(BOOK)
    found = recipe_with(str(tmp_path / "bert"), tmp_path / "tagger")
    assert found == expected
    assert not (tmp_path / "tagger" / "ranker" / "pytorch_model.bin").exists()


def test_an_id_is_fetched_once_and_kept(folder: Path, tmp_path: Path, cached: Path) -> None:
    task: Any = tagger(windows=WINDOWS, context={**CONTEXT, "ranker": str(folder / "t5")})
    by_folder = task.contexts.of(BOOK)
    assert recipe_with(ID, tmp_path / "tagger") == by_folder
    stages = [{"checkpoint": str(folder / "given"), "context": {**CONTEXT, "ranker": ID}}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    pipeline = load_pipeline(tmp_path / "pipeline.yaml", "cpu")
    assert read(pipeline.with_contexts(BOOK)) == read(by_folder)
    shutil.rmtree(cached)
    alone: Any = load_checkpoint(tmp_path / "tagger", "cpu")
    assert alone.task.contexts.of(BOOK) == by_folder


def test_a_reranker_computes_in_the_precision_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    task = tagger(windows=WINDOWS, context={**CONTEXT, "ranker": str(folder / "bert")})
    save_checkpoint(tmp_path / "own", task, built(task), {})
    stages = [{"checkpoint": str(folder / "given"), "context": {**CONTEXT, "ranker": str(folder / "bert")}}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    for place in (tmp_path / "own", tmp_path / "pipeline.yaml"):
        exact, rounded = (
            {
                (number, text): score
                for number, of in enumerate(read(load_pipeline(place, "cpu", precision).with_contexts(BOOK)))
                for text, score in of.items()
            }
            for precision in ("float32", "bfloat16")
        )
        # Of two that are alike, another may be chosen.
        both = exact.keys() & rounded.keys()
        assert len(both) > len(exact) / 2
        assert any(exact[key] != rounded[key] for key in both)
        assert all(exact[key] == pytest.approx(rounded[key], abs=0.05) for key in both)


def test_a_ranker_is_loaded_where_the_model_that_asks_it_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = [{"checkpoint": str(folder / "given"), "context": {**CONTEXT, "ranker": str(folder / "bert")}}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    task = tagger(windows=WINDOWS, context={**CONTEXT, "ranker": str(folder / "bert")})
    save_checkpoint(tmp_path / "own", task, built(task), {})
    asked: list[object] = []

    def load(ranker: Path, device: str | None, precision: Precision) -> Any:
        asked.append(device)
        return load_ranker(ranker, device, precision)

    monkeypatch.setattr(in_recipes, "load_ranker", load)
    for place in (tmp_path / "own", tmp_path / "pipeline.yaml"):
        load_pipeline(place, "cpu").with_contexts(BOOK)
    assert asked == ["cpu", "cpu"]


def test_what_lies_at_the_path_comes_before_an_id(tmp_path: Path) -> None:
    assert place_of_ranker(ID, tmp_path) == ID
    (tmp_path / ID).mkdir(parents=True)
    assert place_of_ranker(ID, tmp_path) == tmp_path / ID
    for path in ("ranker", "runs/ranker/best", "../ranker", "/nobody/reranker", "~/ranker"):
        assert isinstance(place_of_ranker(path, tmp_path), Path)


def test_it_scores_pairs_as_a_ranker_does(folder: Path) -> None:
    ranker = load_ranker(folder / "t5")
    rows = [ContextRow("Ada came.", "Ada was a poet.", True), ContextRow("Yes.", "No. " * 90, False)]
    answers = list(predict(ranker, rows))
    assert [answer.relevant for answer in answers] == [answer.score > 0.5 for answer in answers]
    assert [answer.cut > 0 for answer in answers] == [False, True]
    assert ranker.evaluate(answers, rows)["cut"] == 1


@pytest.mark.parametrize("ranker", [ID, "bert-of-nobody", "model"])
def test_a_ranker_that_cannot_be_had_is_one_clear_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranker: str
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    expected: dict[str, tuple[type[InputError], str, type[InputError], str]] = {
        ID: (
            *(InputError, f"^context.ranker: {ID}: no such folder, and no model to be had"),
            *(InputError, f"pipeline.yaml: stages.0.context.ranker: {ID}: no such folder, and no model"),
        ),
        "bert-of-nobody": (RecipeError, "does not exist", CheckpointError, "is no checkpoint of a ranker"),
        "model": (InputError, "scores no pairs", InputError, "scores no pairs"),
    }
    stages = [{"checkpoint": str(folder / "given"), "context": {"ranker": ranker}}]
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": stages}))
    ways: list[Callable[[], Any]] = [
        lambda: tagger(windows=WINDOWS, context={"ranker": ranker}).windows_of(BOOK),
        lambda: read_pipeline(tmp_path / "pipeline.yaml"),
    ]
    for number, way in enumerate(ways):
        kind, message = expected[ranker][2 * number : 2 * number + 2]
        with pytest.raises(kind, match=message) as error:  # pyright: ignore[reportArgumentType]
            way()
        assert "\n" not in str(error.value)


def test_a_score_that_is_no_number_is_refused(folder: Path) -> None:
    ranker: Any = load_ranker(folder / "bert")
    weights = ranker._model.model.classifier.weight
    kept = weights.detach().clone()
    weights.data[0, 0] = float("nan")
    try:
        with pytest.raises(CheckpointError, match=r"ranker: .*bert: gives a score that is no number"):
            list(predict(ranker, [ContextRow("Ada came.", "Yes.", True)]))
    finally:
        weights.data.copy_(kept)
