"""A pipeline file overrides which contexts a checkpoint reads, and how many sub-words they may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rayner.config import ContextSettings
from rayner.data.schema import Document
from rayner.errors import CheckpointError, RecipeError
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.predict import predict
from rayner.tasks.stages import Pipeline, load_pipeline, read_pipeline
from tests.serving.checkpoints import ranker_folder
from tests.tasks.small import DOCUMENTS, corpus, recognizer, tagger, trained

WINDOWS = {"length": 40, "overlap": 7, "context": 12}
BOOK = Document("0", " ".join(document.text for document in corpus(DOCUMENTS)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints: `own` reads contexts of its recipe, `given` those that documents bring, `none` none."""
    folder = tmp_path_factory.mktemp("stages")
    tasks = {
        "own": recognizer(windows=WINDOWS, context={"methods": ["before"]}),
        "given": tagger(windows=WINDOWS),
        "none": tagger(),
    }
    for name, task in tasks.items():
        save_checkpoint(folder / name, task, trained(task, corpus(), 30), {})
    ranker_folder(folder / "ranker")
    return folder


def loaded(folder: Path, *stages: dict[str, Any]) -> Pipeline:
    (folder / "pipeline.yaml").write_text(yaml.safe_dump({"stages": list(stages)}))
    return load_pipeline(folder / "pipeline.yaml", "cpu")


def texts_read(pipeline: Pipeline) -> list[list[str]]:
    contexts = pipeline.with_contexts(BOOK).sentence_contexts
    assert contexts is not None
    return [[context.text for context in of_one] for of_one in contexts]


@pytest.mark.parametrize("name", ["own", "given"])
def test_heuristics_take_the_place_of_what_the_checkpoint_has(folder: Path, name: str) -> None:
    pipeline = loaded(folder, {"checkpoint": name, "context": {"methods": ["after"], "count": 2}})
    expected = ContextStage(ContextSettings(methods=("after",), count=2)).finish(BOOK, [], [])
    assert pipeline.with_contexts(BOOK) == expected
    (answer,) = pipeline.predict([BOOK])
    (same,) = predict(pipeline.predictor, [expected])
    assert answer.mentions == same.mentions
    assert pipeline.predictor.whole
    task: Any = pipeline.checkpoints[0].task
    assert [(w.before.tolist(), w.after.tolist()) for w in task.windows_of(BOOK)] == [
        (w.before.tolist(), w.after.tolist()) for w in task.windows_of(expected)
    ]


def test_a_ranker_counts_from_the_file_and_dense_takes_the_checkpoints_encoder(folder: Path) -> None:
    context = {"methods": ["dense", "bm25"], "candidates": 3, "ranker": "ranker", "count": 2}
    pipeline = loaded(folder, {"checkpoint": "given", "context": context})
    assert pipeline.checkpoints[0].task.contexts.ranker == folder / "ranker"
    assert {len(texts) for texts in texts_read(pipeline)} == {2}
    assert texts_read(pipeline) == texts_read(load_pipeline(folder / "pipeline.yaml", "cpu"))


def test_the_budget_is_that_of_the_file(folder: Path) -> None:
    sizes = {}
    for budget in (None, 5, 20):
        context = {"methods": ["before", "after"], "count": 4, "budget": budget}
        pipeline = loaded(folder, {"checkpoint": "own", "context": context})
        windows = pipeline.checkpoints[0].task.windows_of(BOOK)
        assert max(map(len, windows)) <= WINDOWS["length"]
        sizes[budget] = max(len(w.before) + len(w.after) for w in windows)
    assert 0 < sizes[5] <= 5 < sizes[None] <= 12 < sizes[20] <= 20


def test_the_version_tells_them_apart_and_the_checkpoint_stays_as_it_is(folder: Path) -> None:
    def version(**context: Any) -> str:
        given = {"context": context} if context else {}
        return loaded(folder, {"checkpoint": "own", **given}).settings.version

    versions = [version(), version(methods=["after"]), version(count=2), version(count=2, budget=5)]
    assert len(set(versions)) == len(versions)
    assert version(count=2) == versions[2]
    assert len(texts_read(loaded(folder, {"checkpoint": "own"}))[0]) == 0, "nothing is before the first"


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"checkpoint": "none", "context": {}}], r"windows\.context is 0"),
        (
            [{"checkpoint": "given", "context": {"method": "bm25"}}],
            r"context: method: unknown key",
        ),
        ([{"checkpoint": "given", "context": {"budget": 38}}], "leaves a window of 40 no room"),
        ([{"checkpoint": "given", "context": {"budget": 0}}], r"context: budget"),
        ([{"checkpoint": "given", "context": {"budget": 1}}], "room of 1 sub-word, .* `budget` of 2 or"),
        ([{"checkpoint": "given", "context": {"count": 2, "budget": 2}}], r"give a `budget` of 3 or more"),
        ([{"checkpoint": "given", "context": {"ranker": "a\0b"}}], r"0\.context\.ranker: .* null character"),
        ([{"checkpoint": "a\0b"}], r"0\.checkpoint: .* null character"),
        ([{"checkpoint": "given", "context": "bm25"}], r"stages\.0\.context: 'bm25' is no mapping"),
        ([{"checkpoint": "own", "context": None}], r"stages\.0\.context: null is no mapping .*leave it out"),
        (
            [{"checkpoint": "own", "context": {"count": True}}],
            r"stages\.0\.context: count: true is no number",
        ),
        ([{"checkpoint": "ranker", "context": {}}, {"checkpoint": "own"}], "task ranker reads no contexts"),
        ([{"checkpoint": "ranker"}, {"checkpoint": "own", "context": {}}], "both a stage of contexts and"),
        (
            [{"checkpoint": "ranker", "methods": ["bm25", "bm25"]}, {"checkpoint": "given"}],
            r"stages\.0\.methods: names one twice",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(folder: Path, stages: list[dict[str, Any]], message: str) -> None:
    (folder / "wrong.yaml").write_text(yaml.safe_dump({"stages": stages}))
    with pytest.raises(RecipeError, match=message) as error:
        read_pipeline(folder / "wrong.yaml")
    assert "\n" not in str(error.value)


def test_a_stage_of_contexts_keeps_those_that_reach_its_minimum(folder: Path) -> None:
    def scores(**options: Any) -> list[list[float]]:
        pipeline = loaded(folder, {"checkpoint": "ranker", "count": 20, **options}, {"checkpoint": "given"})
        contexts = pipeline.predict([BOOK])[0].sentence_contexts
        return [[context.score for context in of_one] for of_one in contexts]

    found = scores()
    minimum = sorted(score for of_one in found for score in of_one)[3]
    assert scores(minimum=minimum) == [[score for score in of_one if score >= minimum] for of_one in found]
    assert scores(minimum=minimum) != found


def test_a_ranker_that_is_none_is_refused(folder: Path) -> None:
    stages = [{"checkpoint": "given", "context": {"ranker": "own"}}]
    (folder / "wrong.yaml").write_text(yaml.safe_dump({"stages": stages}))
    with pytest.raises(CheckpointError, match="holds a recognizer, which scores no pairs"):
        read_pipeline(folder / "wrong.yaml")
