"""Pipeline files: which stages, in which order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import rayner
from rayner.config.recipe_files import dump_recipe
from rayner.data.schema import Document, Mention
from rayner.errors import InputError, RecipeError
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe
from rayner.tasks.stages import ORDER, Pipeline, checkpoint_in, read_pipeline
from tests.tasks.small import built, corpus, recognizer, tagger
from tests.tasks.small_pairs import ranker_recipe
from tests.tasks.standardizer.small_standardizer import standardizer

CORPUS = {"corpus": {"train": ["nowhere"], "dev": ["nowhere"]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is read of checkpoints before they are loaded: their recipes."""
    folder = tmp_path_factory.mktemp("stages")
    recipes: dict[str, Any] = {
        "contexts": parse_recipe(ranker_recipe(folder / "pairs"), "test"),
        "mentions": recognizer(windows={"length": 40, "overlap": 10, "context": 12}).recipe,
        "others": tagger().recipe,
        "types": parse_recipe({"task": "typer", "encoder": "random:32x2", **CORPUS}, "test"),
        "entities": parse_recipe(
            {"task": "standardizer", "encoder": "random:32x2", "knowledge_base": {"paths": ["nowhere"]}},
            "test",
        ),
    }
    for name, recipe in recipes.items():
        (folder / name).mkdir()
        (folder / name / "recipe.yaml").write_text(dump_recipe(recipe))
    return folder


def written(folder: Path, stages: Sequence[str]) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"stages": [{"checkpoint": name} for name in stages]}))
    return path


@pytest.mark.parametrize(
    "stages",
    [
        ORDER,
        ORDER[1:],
        ("mentions", "entities", "entities"),
        ("others",),
        ("mentions", "types"),
        ("types", "entities"),
    ],
)
def test_stages_that_add_to_each_other(folder: Path, stages: Sequence[str]) -> None:
    read = read_pipeline(written(folder, stages))
    assert [stage.checkpoint.name for stage in read.stages] == list(stages)


def test_what_is_about_one_stage_takes_its_checkpoint_of_the_file(folder: Path) -> None:
    path = written(folder, ORDER)
    assert [checkpoint_in(path, name).name for name in ORDER] == list(ORDER)
    assert checkpoint_in(folder / "mentions", "mentions") == folder / "mentions"


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (("mentions",), "has no stage of entities, and one is wanted; name the checkpoint itself"),
        (("mentions", "entities", "entities"), "has 2 stages of entities, and one is wanted"),
    ],
)
def test_a_file_without_one_such_stage_is_refused(folder: Path, stages: Sequence[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        checkpoint_in(written(folder, stages), "entities")


def test_a_standardizer_alone_takes_no_documents(folder: Path) -> None:
    alone = Pipeline(read_pipeline(folder / "entities"), (), standardizer())
    assert [answer.name for answer in alone.predict("nginx")] == ["nginx"]
    with pytest.raises(
        InputError, match=r"^items\[1\]: a document, .* alone links strings; .* pipeline file"
    ):
        alone.predict(["nginx", Document("a", "We run nginx.", (Mention(7, 12, "Software"),))])


def test_a_text_is_refused_where_nothing_finds_mentions_in_it(folder: Path) -> None:
    typed = Pipeline(read_pipeline(folder / "types"), (), standardizer())
    alone = (
        r"^items\[0\]: task typer finds nothing in a text by itself; give a document with its mentions, or"
    )
    with pytest.raises(InputError, match=alone):
        typed.predict("We run nginx.")
    several = Pipeline(read_pipeline(written(folder, ("types", "entities"))), (), standardizer())
    with pytest.raises(InputError, match=r"^items\[0\]: no stage of the file finds mentions"):
        several.predict("We run nginx.")


@pytest.mark.parametrize(
    ("name", "message"),
    [("mentions", "is no document; give a string or a rayner.Document"), ("entities", "is no mention")],
)
def test_what_only_has_a_text_is_refused(folder: Path, name: str, message: str) -> None:
    pipeline = Pipeline(read_pipeline(folder / name), (), standardizer())
    with pytest.raises(InputError, match=rf"^items\[0\]: SimpleNamespace {message}"):
        pipeline.predict([SimpleNamespace(text="nginx")])


def test_a_stage_that_would_link_no_type_is_refused(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    stages = [{"checkpoint": "mentions"}, {"checkpoint": "entities", "types": []}]
    path.write_text(yaml.safe_dump({"stages": stages}))
    with pytest.raises(RecipeError, match=r"stages.1.types: .* at least 1 item"):
        read_pipeline(path)


@pytest.mark.parametrize(
    ("stage", "option"),
    [("entities", "top_k"), ("entities", "nil_share"), ("mentions", "shift"), ("types", "shift")],
)
def test_a_boolean_is_no_number(folder: Path, stage: str, option: str) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"stages": [{"checkpoint": stage, option: True}]}))
    with pytest.raises(RecipeError, match=rf"stages.0.{option}: true is no number"):
        read_pipeline(path)


def test_options_that_do_not_go_together_are_those_of_the_stage(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    stage = {"checkpoint": "contexts", "methods": ["bm25"], "candidates": 2, "choice": "diverse"}
    path.write_text(yaml.safe_dump({"stages": [stage]}))
    with pytest.raises(RecipeError, match=r"stages\.0: has a diverse choice of 3 among 2 candidates"):
        read_pipeline(path)


@pytest.mark.parametrize(
    ("name", "what"), [("a\0b", r"stages.0.checkpoint: .* is no path"), ("\ud800", r"yaml:1: .*surrogate")]
)
def test_a_checkpoint_that_is_no_path_is_named(folder: Path, name: str, what: str) -> None:
    path = folder / "pipeline.yaml"
    path.write_text(f'stages: [{{checkpoint: "{name.encode("unicode-escape").decode()}"}}]')
    with pytest.raises(RecipeError, match=what):
        read_pipeline(path)


def test_a_checkpoint_whose_name_is_too_long_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"/x{256}.*: File name too long; correct the path$"):
        read_pipeline(written(folder, ["x" * 256]))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (("mentions", "mentions"), "has more than one stage of mentions"),
        (("mentions", "others"), "has more than one stage of mentions"),
        (("mentions", "types", "types"), "has more than one stage of types"),
        (("contexts", "contexts", "mentions"), "has more than one stage of contexts"),
        (("entities", "mentions"), "in the order entities, mentions; write contexts, mentions, types, ent"),
        (("types", "mentions"), "in the order types, mentions"),
        (("mentions", "contexts"), "in the order mentions, contexts"),
        (("mentions", "entities", "types"), "in the order mentions, entities, types"),
        (("contexts",), "no stage that reads them"),
        (("contexts", "others"), "no stage that reads them"),
    ],
)
def test_stages_that_make_no_sense_are_refused(folder: Path, stages: Sequence[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        read_pipeline(written(folder, stages))
    assert "\n" not in str(error.value)


def test_a_generator_runs_in_the_thread_of_its_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor of a database may be read by no other."""
    monkeypatch.setattr("rayner.tasks.stages.has_spare_core", lambda: True)
    task, readers = recognizer(), set()
    save_checkpoint(tmp_path / "best", task, built(task), {})

    def texts() -> Iterator[str]:
        for document in corpus() * 40:
            readers.add(threading.current_thread())
            yield document.text

    assert len(rayner.load(tmp_path / "best", "cpu").predict(texts())) == 40 * len(corpus())
    assert readers == {threading.current_thread()}


def test_a_file_in_place_of_a_checkpoint_is_named(folder: Path) -> None:
    inner = written(folder, ["mentions"]).rename(folder / "inner.yaml")
    with pytest.raises(RecipeError, match=r"stages\.0\.checkpoint: is a file; name a folder, or"):
        read_pipeline(written(folder, [inner.name]))


def test_paths_may_be_file_uris(folder: Path) -> None:
    path = folder / "pipeline.yaml"
    entities = {"checkpoint": f"file://{folder}/entities", "index": f"file://{folder}/index"}
    path.write_text(yaml.safe_dump({"stages": [entities]}))
    for given in (path, path.as_uri(), f"file://localhost{path}"):
        (stage,) = read_pipeline(given).stages
        assert (stage.checkpoint, stage.options.index) == (folder / "entities", folder / "index")  # pyright: ignore
        assert checkpoint_in(given, "entities") == folder / "entities"
    assert checkpoint_in((folder / "entities").as_uri(), "entities") == folder / "entities"
