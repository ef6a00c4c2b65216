from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rayner.config import RecognizerRecipe, TaggerRecipe
from rayner.config.documents import UNKNOWN_TYPE
from rayner.config.named_paths import named_paths
from rayner.config.recipe_files import changed_keys, corpus_paths, dump_recipe
from rayner.data.schema import UNKNOWN
from rayner.errors import RecipeError
from rayner.tasks.recognizer.task import RecognizerTask
from rayner.tasks.registry import load_recipe, parse_recipe
from rayner.tasks.tagger.task import TaggerTask

VALUES: dict[str, Any] = {
    "task": "recognizer",
    "encoder": "random:16x1",
    "corpus": {"train": ["train.jsonl"]},
    "types": [{"name": "PER", "description": "people"}, {"name": "LOC", "description": "places"}],
}


def written(path: Path, **changes: Any) -> Path:
    """A recipe file in a folder."""
    file = path / "recipe.yaml"
    values = {k: v for k, v in {**VALUES, **changes}.items() if v is not ...}
    file.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("changes", "key", "nearest"),
    [
        ({"trainning": {"epochs": 2}}, "trainning", "training"),
        ({"training": {"epoch": 2}}, "training.epoch", "epochs"),
        ({"model": {"max_spanwidth": 9}}, "model.max_spanwidth", "max_span_width"),
        ({"corpus": {"train": ["x"], "formats": "auto"}}, "corpus.formats", "format"),
        ({"types": [{"name": "PER", "descripton": "people"}]}, "types.0.descripton", "description"),
        ({"corpus": ..., "corpsu": {"train": ["x"]}}, "corpsu", "corpus"),
        ({"windows": {"overlapp": 8}}, "windows.overlapp", "overlap"),
        ({"task": "recogniser"}, "task", "recognizer"),
    ],
)
def test_a_misspelt_key_names_the_nearest(
    tmp_path: Path, changes: dict[str, Any], key: str, nearest: str
) -> None:
    with pytest.raises(RecipeError) as error:
        load_recipe(written(tmp_path, **changes))
    assert error.value.where == f"{tmp_path / 'recipe.yaml'}: {key}"
    assert nearest in error.value.hint
    assert error.value.exit_status == 2


def test_a_key_of_another_task_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"support_words: unknown key"):
        load_recipe(written(tmp_path, task="tagger", support_words=9))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": ...}, "corpus: is missing"),
        ({"corpus": {"dev": ["x"]}}, r"corpus\.train: is missing"),
        ({"types": [{"description": "people"}]}, r"types\.0\.name: is missing"),
        ({"task": ...}, "task"),
        ({"task": ["recognizer"]}, "task"),
        ({"types": []}, "types: "),
        ({"types": {"PER": "people"}}, r"types: \{'PER': 'people'\} is no list; write `\[\.\.\.\]`"),
        ({"types": 3}, "types: 3 is no list"),
        ({"types": "auto"}, "types: 'auto' is no list; a typer alone takes its types from the corpus"),
        ({"corpus": {"train": "x\ny"}}, r"train: 'x\\ny' is no list; write `\[\.\.\.\]`, or a line"),
        ({"corpus": {"train": "x.jsonl"}}, r"corpus\.train: 'x\.jsonl' is no list; write `\[x\.jsonl\]`"),
        ({"types": [3]}, r"types\.0: 3 has no keys; write `name: ...`, and beside it"),
        ({"training": 3}, r"training: 3 has no keys; it may have .*epochs"),
        ({"training": {"epochs": "many"}}, r"training\.epochs: .*integer"),
        ({"training": {"epochs": 0}}, r"training\.epochs: .*greater than 0"),
        ({"training": {"epochs": True}}, r"training\.epochs: true is no number"),
        ({"training": {"clip": False}}, r"training\.clip: false is no number"),
        ({"training": []}, "training: "),
        ({"training": {"precision": "float8"}}, r"training\.precision: .*bfloat16"),
        ({"types": [{"name": "PER"}, {"name": "PER"}]}, "'PER' occurs twice"),
        ({"types": [{"name": "PER"}, {"name": "?"}]}, r"types: '\?' is no type: .* name another$"),
        ({"types": [{"name": "PER"}, {"name": " "}]}, r"types: ' ' is no name of a type: write one$"),
        ({"absent": [{"name": "?", "description": "any"}]}, r"'\?' is no type"),
        ({"model": {"threshold": "tuned"}}, r"tuned needs corpus\.dev"),
        ({"windows": {"overlap": 20}}, r"overlap 20 loses mentions .* at least 29"),
        ({"windows": {"length": 40, "overlap": 30}}, "at most half of the window, 19"),
        (
            {"loss": {"start_weight": 0}, "decoding": {"joint": True}},
            r"loss\.start_weight 0 trains no start of a mention, which decoding\.joint and",
        ),
        (
            {"loss": {"end_weight": 0}, "decoding": {"start_weight": 0.2, "end_weight": 0.2}},
            r"loss\.end_weight 0 trains no end of a mention",
        ),
        ({"model": {"dropout": 1}}, r"model\.dropout: .*less than 1"),
        ({"loss": {"span_weight": 0}}, r"loss\.span_weight: .*greater than 0"),
        ({"seed": -1}, r"seed: .*greater than or equal to 0"),
        ({"seed": 2**63}, r"seed: .*less than 9223372036854775808"),
        ({"windows": {"length": 0}}, r"windows\.length: "),
        ({"scaling": {"workers": 4, "max_workers": 2}}, "max_workers 2 is below workers 4"),
        ({"scaling": {"gpus_per_worker": 1.5}}, r"gpus_per_worker 1\.5 is neither whole nor below 1"),
        ({"scaling": {"cpus_per_worker": 1e-5}}, r"cpus_per_worker 1e-05 is less than Ray counts"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message) as error:
        load_recipe(written(tmp_path, **changes))
    assert str(tmp_path / "recipe.yaml") in error.value.where
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["task", "types", "types.0", "training"])
def test_a_value_that_no_memory_holds_is_refused(tmp_path: Path, key: str) -> None:
    value: Any = ["x"] * 10
    for _ in range(39):
        value = [value] * 10
    name, _, below = key.partition(".")
    # Written with aliases, it is a file of two kilobytes.
    with pytest.raises(RecipeError) as error:
        load_recipe(
            written(tmp_path, **{name: [value] if below else {"a": value} if key == "types" else value})
        )
    assert error.value.where == f"{tmp_path / 'recipe.yaml'}: {key}"
    assert "[[[[" in error.value.what


@pytest.mark.parametrize("task", [RecognizerTask, TaggerTask])
def test_a_window_longer_than_the_encoder_is_refused(task: Any) -> None:
    name = "recognizer" if task is RecognizerTask else "tagger"
    recipe = parse_recipe({**VALUES, "task": name, "windows": {"length": 513}}, "here")
    with pytest.raises(RecipeError, match=r"windows\.length: 513 .* it takes 512"):
        task(recipe).build()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"- task: recognizer\n", "not a mapping"),
        (b"recognizer", "not a mapping"),
        (b"", "not a mapping"),
        ("task: recognizer\nencoder: Z\u00fcrich\n".encode("latin1"), "not UTF-8"),
        (b"task: recognizer\ntypes: [\n", r"recipe\.yaml:3: not valid YAML"),
        (
            b"training: {epochs: 3}\ntask: tagger\ntraining: {clip: 2}\n",
            r"recipe\.yaml:3: .*'training' occurs twice",
        ),
        (b"training:\n  epochs: 3\n  clip: 2\n  epochs: 5\n", r"recipe\.yaml:4: .*'epochs' occurs twice"),
        (b"task: recognizer\nencoder: a: b\n", r"recipe\.yaml:2: not valid YAML"),
        (b"task: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
        (b"task: recognizer\nseed: 2020-13-45\n", "not valid YAML"),
        (b"task: " + b"[" * 5000, "not valid YAML"),
        (b"1: 2\ntask: recognizer\n", r": 1: .*string"),
        (b'task: recognizer\nencoder: "\\ud800"\n', r"recipe\.yaml:2: .*surrogate pair"),
        (b"task: recognizer\ncorpus: &a {train: [*a]}\n", r"recipe\.yaml: corpus"),
    ],
)
def test_a_file_that_is_no_recipe_is_an_error_with_its_place(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match=message) as error:
        load_recipe(path)
    assert error.value.where.startswith(str(path))


def test_what_is_no_yaml_file_by_its_name_is_told_what_was_to_be_named(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("Ada\tB: PER\n\tO\n")
    with pytest.raises(RecipeError, match=r"dev\.tsv:1: not valid YAML .*; name a recipe file$"):
        load_recipe(path)


def test_what_a_recipe_refuses_is_what_documents_have() -> None:
    assert UNKNOWN_TYPE == UNKNOWN


def test_a_recipe_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none\.yaml: No such file"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match=r"Is a directory"):
        load_recipe(tmp_path)


def test_values_can_be_set_from_outside(tmp_path: Path) -> None:
    overrides = ["training.epochs=3", "seed=7", "model.threshold=tuned", "corpus.dev=[a, b]", "encoder = x=y"]
    recipe = load_recipe(written(tmp_path, model=None, corpus={"train": ["t"]}), overrides)
    assert isinstance(recipe, RecognizerRecipe)
    assert (recipe.training.epochs, recipe.seed, recipe.model.threshold) == (3, 7, "tuned")
    assert recipe.corpus.dev == ("a", "b")
    assert recipe.encoder == "x=y"


def test_a_path_that_does_not_exist_hints_at_the_variable_only_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYNER_DATA", str(tmp_path))
    with pytest.raises(RecipeError, match="absent does not exist; correct the path"):
        corpus_paths([str(tmp_path / "absent")])
    with pytest.raises(RecipeError, match="absent does not exist; set RAYNER_DATA or correct the path"):
        corpus_paths(["$RAYNER_DATA/absent"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epochs", r"--set training\.epochs: has no value"),
        ("seed.deep=1", r"--set seed\.deep=1: 'seed' holds no keys"),
        ("types.0.name=X", r"'types' holds no keys; set it whole: types=\[\.\.\.\]$"),
        ("training.epocs=1", r"--set training\.epocs=1: unknown key; did you mean 'epochs'"),
        ("trainng.epochs=1", r"--set trainng\.epochs=1: unknown key; did you mean 'training\.epochs'"),
        ("scaling.ax_workers=2", r"unknown key; did you mean 'max_workers'"),
        ("training.ead_learning_rate=2", r"unknown key; did you mean 'head_learning_rate'"),
        ("scaling.num_workers=2", r"unknown key; did you mean 'workers'"),
        ("epochs=2", r"--set epochs=2: unknown key; did you mean 'training\.epochs'"),
        ("max_span_width=9", r"unknown key; did you mean 'model\.max_span_width'"),
        ("seed=[1", r"--set seed=\[1: not valid YAML"),
        ("seed=2020-13-45", "--set seed=2020-13-45: not valid YAML"),
        ("seed={a: 1, a: 2}", "not valid YAML .*'a' occurs twice"),
        ("seed=&a [*a]", "--set seed=&a .*valid integer"),
    ],
)
def test_a_wrong_override_is_named(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(written(tmp_path, seed=1), [override])


def test_types_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "types.yaml").write_text("- {name: PER, description: people}\n")
    recipe = load_recipe(written(tmp_path, types="types.yaml"))
    assert [t.name for t in recipe.types] == ["PER"]
    with pytest.raises(RecipeError, match=r"other\.yaml: No such file"):
        load_recipe(written(tmp_path, types="other.yaml"))


@pytest.mark.parametrize("task", ["recognizer", "tagger"])
def test_a_recipe_that_is_written_out_reads_back_as_itself(tmp_path: Path, task: str) -> None:
    types = [
        {"name": "物", "description": "things: 'all' of \"them\"\n- and so on", "prototypes": ["a [[b]]"]}
    ]
    recipe = load_recipe(written(tmp_path, task=task, types=types))
    path = tmp_path / "again.yaml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(path) == recipe
    assert "物" in path.read_text(encoding="utf-8")


def test_changed_keys_are_those_that_differ() -> None:
    recipe = parse_recipe(VALUES, "here")
    other = parse_recipe({**VALUES, "seed": 2, "training": {"epochs": 3}, "model": {"dropout": 0}}, "here")
    assert changed_keys(recipe, recipe) == []
    assert changed_keys(recipe, other) == ["model.dropout", "seed", "training.epochs"]
    tagger = parse_recipe({**VALUES, "task": "tagger"}, "here")
    assert isinstance(tagger, TaggerRecipe)
    assert {"task", "loss.beta", "model.scheme"} <= set(changed_keys(recipe, tagger))


def test_a_corpus_that_is_not_there_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYNER_DATA", str(tmp_path))
    (tmp_path / "ncbi").mkdir()
    assert corpus_paths(["$RAYNER_DATA/ncbi"]) == [tmp_path / "ncbi"]
    assert corpus_paths(["${RAYNER_DATA}/ncbi"]) == [tmp_path / "ncbi"]
    with pytest.raises(RecipeError, match=r"bc5 does not exist; set RAYNER_DATA"):
        corpus_paths(["$RAYNER_DATA/bc5"])
    monkeypatch.delenv("RAYNER_DATA")
    monkeypatch.chdir(tmp_path)
    for path in ("$RAYNER_DATA/nowhere", "${RAYNER_DATA}/nowhere"):
        with pytest.raises(RecipeError, match="the environment variable RAYNER_DATA is not set"):
            corpus_paths([path])


def test_paths_of_a_recipe_may_have_the_scheme_of_files(tmp_path: Path) -> None:
    (tmp_path / "a b.jsonl").touch()
    (tmp_path / "types.yaml").write_text("- {name: PER, description: people}")
    corpus = f"file://{tmp_path}/a%20b.jsonl"
    assert corpus_paths([corpus]) == [tmp_path / "a b.jsonl"]
    values = {"task": "recognizer", "types": f"file://{tmp_path}/types.yaml", "corpus": {"train": [corpus]}}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    recipe: Any = load_recipe(tmp_path / "recipe.yaml")
    assert [one.name for one in recipe.types] == ["PER"]
    assert named_paths(recipe) == [str(tmp_path / "a b.jsonl")]
