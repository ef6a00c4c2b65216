"""Search spaces: what is read, what is refused, what is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import InputError, RecipeError
from rayner.runtime.sweeps.domains import Range
from rayner.runtime.sweeps.plan import Plan
from rayner.runtime.sweeps.sampling import draws, grid, key_of, trial_name
from rayner.runtime.sweeps.space import Space, check_space, choices, described, extremes, load_space
from rayner.runtime.sweeps.sweep_settings import objectives, resolve_settings, sweep_settings
from rayner.runtime.sweeps.trainable import settings_of
from rayner.tasks.registry import parse_recipe

SPACE = """
from ray import tune
TASK, METRIC = "tagger", "f1"
def space():
    return {"training.learning_rate": tune.loguniform(1e-5, 1e-2), "model.scheme": ["BIO", "BIOES"]}
def rates():
    return {"training.warmup": tune.grid_search([0, 0.2]), "model.dropout": tune.grid_search([0, 0.1])}
def empty():
    return {}
def misspelt():
    return {"training.learning_rte": [1e-4]}
def beyond():
    return {"training.epochs": [0, 1]}
def impossible():
    return {"training.learning_rate": tune.loguniform(0, 1)}
def choiceless():
    return {"training.learning_rate": tune.choice([])}
def unknown():
    return {"training.learning_rate": tune.sample_from(lambda _: 1e-4)}
def upside_down():
    return {"training.learning_rate": tune.uniform(1e-2, 1e-4)}
def nowhere():
    return {"training.epochs": tune.randint(3, 3)}
def unbounded():
    return {"training.learning_rate": tune.randn(1, 0.1)}
def too_many():
    return {"training.epochs": tune.randint(1, 10**30)}
def half_a_character():
    return {"encoder": ["bert", chr(0xd800)]}
def leaving():
    raise SystemExit(0)
def unordered():
    return {"training.epochs": {1, 2}}
def together():
    return {"windows.length": [16, 512], "windows.overlap": [4, 128]}
def amid_others():
    keys = "epochs evaluations_per_epoch patience checkpoint_every log_every clip learning_rate weight_decay"
    others = {f"training.{key}": [1, 2] for key in keys.split()}
    return {"windows.overlap": [128, 4], **others, "windows.length": [16, 512]}
def points():
    return {
        "training.learning_rate": tune.uniform(1e-3, 1e-3),
        "training.epochs": tune.qrandint(1, 1, 1),
    }
def never():
    return {"windows.length": [16, 32], "windows.overlap": [64]}
"""


def recipe(task: str = "tagger", **parts: Any) -> Any:
    types = [{"name": "PER", "description": "people"}]
    values = {"task": task, "corpus": {"train": ["a"], "dev": ["b"]}, "types": types, **parts}
    return parse_recipe(values, "recipe")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SPACE)
    return path


def test_a_space_says_what_it_is_for(file: Path) -> None:
    space = load_space(str(file))
    assert (space.name, space.task, space.metric, space.search) == ("mine", "tagger", "f1", None)
    assert choices(space.domains["model.scheme"]) == ["BIO", "BIOES"]
    named = load_space(f"{file}:rates")
    assert (named.name, named.search) == ("mine:rates", "grid")
    check_space(space, recipe())
    check_space(named, recipe())
    file.write_text(SPACE + 'SEARCH = "optuna"\n')
    assert [load_space(f"{file}{part}").search for part in ("", ":rates")] == ["optuna", "grid"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{file}:rate", r"no function 'rate' in it; did you mean 'rates'"),
        ("{file}:empty", "an empty space"),
        ("{file}:impossible", "cannot be executed: ValueError: LogUniform"),
        ("{file}:choiceless", r"mine:choiceless: training\.learning_rate: a key without any value"),
        ("{file}:unknown", r"mine:unknown: training\.learning_rate: a function"),
        (
            "{file}:upside_down",
            r"_rate: from 0\.01 to 0\.0001 is no range; give the smaller number first",
        ),
        ("{file}:nowhere", r"training\.epochs: from 3 to 3 is no range"),
        ("{file}:unbounded", r"learning_rate: a distribution that has no bounds.*name a range"),
        ("{file}:unordered", r"training\.epochs: a set in place of a list"),
        ("{file}:too_many", r"training\.epochs: 1 to 10{30} are more numbers than can be drawn from"),
        ("{file}:half_a_character", "encoder: half of a surrogate pair is no character"),
        ("{file}:leaving", "cannot be executed: SystemExit: 0"),
        ("{file}.py", "no such file"),
        ("no.such.module", "no such file or module"),
        ("", "SPACE: no file and no module is named"),
        (":space", "SPACE: no file and no module is named"),
    ],
)
def test_what_is_no_space_is_named(file: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_space(text.format(file=file))


def test_a_file_that_is_not_python_is_no_space(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("training.epochs: [1, 2]")
    with pytest.raises(InputError, match=r"space\.yaml: is no Python file"):
        load_space(str(tmp_path / "space.yaml"))


def test_a_space_that_cannot_be_executed_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(InputError, match="ZeroDivisionError"):
        load_space(str(tmp_path / "broken.py"))
    # Such as any script that is named by mistake: as a success, it would pass for a sweep.
    (tmp_path / "script.py").write_text("raise SystemExit(0)")
    with pytest.raises(InputError, match=r"script\.py: cannot be executed: SystemExit: 0"):
        load_space(str(tmp_path / "script.py"))


def test_a_wrong_key_names_the_nearest(file: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"training\.learning_rte: unknown key; did you mean 'learning_rate'"
    ):
        check_space(load_space(f"{file}:misspelt"), recipe())


def test_a_value_that_the_recipe_does_not_take_is_refused(file: Path) -> None:
    with pytest.raises(RecipeError, match=r"training\.epochs.*greater than 0, not 0"):
        check_space(load_space(f"{file}:beyond"), recipe())


@pytest.mark.parametrize("name", ["together", "amid_others", "points"])
def test_what_can_be_drawn_is_taken(file: Path, name: str) -> None:
    """It is refused by raising."""
    space = load_space(f"{file}:{name}")
    check_space(space, recipe())
    if name == "points":
        assert [list(extremes(domain)) for domain in space.domains.values()] == [[0.001, 0.001], [1, 1]]


def test_values_that_never_go_together_are_refused(file: Path) -> None:
    with pytest.raises(RecipeError, match=r"windows: overlap 32 must be at most half of the window, 7"):
        check_space(load_space(f"{file}:never"), recipe())


def test_a_space_for_another_task_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match=r"for the task 'tagger'.*recipe is for the task 'recognizer'"):
        check_space(load_space(str(file)), recipe("recognizer"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("seed", 2, "give --seeds"),
        ("scaling.workers", 2, "give --workers"),
        ("scaling", {"workers": 2}, "give --workers"),
        ("corpus.dev_fraction", 0.2, "neither --folds"),
        ("corpus", {"train": ["a"]}, "neither --folds"),
        ("mentions.negatives", ("a",), "neither --folds"),
    ],
)
def test_a_key_that_the_sweep_sets_is_refused(tmp_path: Path, key: str, value: Any, message: str) -> None:
    (tmp_path / "own.py").write_text(f"def space(): return {{{key!r}: [{value!r}]}}")
    with pytest.raises(InputError, match=message):
        check_space(load_space(str(tmp_path / "own.py")), recipe(), cut=True)


def test_a_corpus_may_be_searched_where_nothing_is_cut(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('def space(): return {"corpus.train": [["a"], ["c"]]}')
    space = load_space(str(tmp_path / "own.py"))
    check_space(space, recipe())
    assert [row["corpus.train"] for row in grid(space)] == [["a"], ["c"]]


def test_a_grid_has_every_combination_and_no_range(file: Path) -> None:
    rows = grid(load_space(f"{file}:rates"))
    assert len(rows) == len({key_of(row) for row in rows}) == 4
    with pytest.raises(InputError, match=r"learning_rate is a range"):
        grid(load_space(str(file)))


def test_draws_differ_and_more_of_them_begin_alike(file: Path) -> None:
    space = load_space(str(file))
    rows = draws(space, 12, seed=1)
    assert len({key_of(row) for row in rows}) == 12
    assert draws(space, 20, seed=1)[:12] == rows
    assert draws(space, 12, seed=2) != rows
    assert all(1e-5 <= row["training.learning_rate"] <= 1e-2 for row in rows)
    assert len(draws(load_space(f"{file}:rates"), 12, seed=1)) == 4


def test_a_key_does_not_depend_on_the_order_of_settings() -> None:
    assert key_of({"a": 1, "b": 0.1}) == key_of({"b": 0.1, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})


def test_a_trial_is_named_by_its_searched_settings(tmp_path: Path) -> None:
    settings = {"training.learning_rate": 0.01, "model.scheme": "BIO", "corpus.train": ["a/b.tsv", "c"]}
    name = trial_name(settings, fixed=("model.scheme",))
    assert name == f"train=_a_b.tsv_,_c_,learning_rate=0.01-{key_of(settings)}"
    assert trial_name({"loss.beta": 0.5}, fixed=("loss.beta",)).startswith("trial-")
    many = {f"loss.weight_of_{number}": number / 7 for number in range(20)}
    assert len(trial_name(many)) <= 91
    assert trial_name(many) != trial_name({**many, "loss.weight_of_19": 0.0})
    (tmp_path / trial_name(settings)).mkdir()


def test_a_recipe_may_have_a_seed_that_the_search_does_not_know(file: Path) -> None:
    settings = resolve_settings(Space("mine", {}), recipe(seed=20_251_231_235_959))
    assert draws(load_space(str(file)), 2, settings.seed)
    with pytest.raises(InputError, match="seed"):
        resolve_settings(Space("mine", {}), recipe(), seed=-1)


SPACES = [
    (f"tune_spaces/{task}.py:{name}", recipe_file)
    for task, recipe_file, names in (
        (
            "recognizer",
            "recognizer",
            ("space", "loss_weights", "beta", "temperature", "thresholds"),
        ),
        ("tagger", "tagger", ("space", "learning_rates")),
        ("standardizer", "standardizer", ("space", "table_5", "figure_3", "figure_4")),
        ("chains", "chains_litbank", ("space", "negatives")),
        ("coreference", "coreference_litbank_gum", ("space",)),
        ("entity_typer", "typer_ufet", ("space", "encodings")),
        ("ranker", "ranker_synthetic", ("space", "learning_rates")),
    )
    for name in names
]


@pytest.mark.parametrize(("space", "recipe_file"), SPACES)
def test_our_spaces_fit_our_recipes(root: Path, space: str, recipe_file: str) -> None:
    from rayner.tasks.registry import load_recipe

    loaded, recipe = load_space(str(root / space)), load_recipe(root / f"jobs/recipes/{recipe_file}.yaml")
    check_space(loaded, recipe)
    assert loaded.task == recipe.task
    assert loaded.domains


def test_listed_values_stay_as_they_are_and_drawn_ones_are_rounded(tmp_path: Path) -> None:
    rates = [0.001234567, 0.0012345, 0.00123451]
    text = (
        f'from ray import tune\ndef space(): return {{"training.learning_rate": {rates}}}\n'
        'def mixed(): return space() | {"model.dropout": tune.uniform(0.0, 0.5)}'
    )
    (tmp_path / "exact.py").write_text(text)
    space = load_space(str(tmp_path / "exact.py"))
    assert sorted(row["training.learning_rate"] for row in draws(space, 9, seed=1)) == sorted(rates)
    assert len({key_of(row) for row in grid(space)}) == 3
    mixed = draws(load_space(f"{tmp_path / 'exact.py'}:mixed"), 9, seed=1)
    assert {row["training.learning_rate"] for row in mixed} == set(rates)
    assert all(row["model.dropout"] == float(f"{row['model.dropout']:.4g}") for row in mixed)


def test_a_trial_of_ray_tune_has_the_listed_value(tmp_path: Path) -> None:
    plan = Plan(
        recipe(), sweep_settings(objectives=objectives(["f1"], recipe())), tmp_path, tmp_path, {}, tmp_path
    )
    plan = replace(plan, drawn={"model.dropout": Range(0, 0.5)})
    config = {"training.learning_rate": 0.001234567, "model.dropout": 0.123456789}
    assert settings_of(plan, config) == {"training.learning_rate": 0.001234567, "model.dropout": 0.1235}
    assert settings_of(plan, {"settings": {"training.clip": 0.123456}}) == {"training.clip": 0.123456}


@pytest.mark.parametrize("key", ["training", "model"])
def test_a_whole_section_is_refused(tmp_path: Path, key: str) -> None:
    value = {"training": {"epochs": 1}, "model": {"dropout": 0.1}}[key]
    (tmp_path / "whole.py").write_text(f"def space(): return {{{key!r}: [{value!r}]}}")
    message = rf"{key} is a whole section.*search {key}\.{next(iter(value))}"
    with pytest.raises(InputError, match=message):
        check_space(load_space(str(tmp_path / "whole.py")), recipe())


@pytest.mark.parametrize(
    ("text", "message"), [("raise NameError('nothing')", "NameError: nothing"), ("1 +", "SyntaxError")]
)
def test_a_module_that_cannot_be_imported_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "a_space_that_is_broken.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError, match=f"cannot be imported: {message}"):
        load_space("a_space_that_is_broken:space")


def test_a_space_without_a_name_is_told_in_a_line() -> None:
    with pytest.raises(InputError):
        load_space(":space")


@pytest.mark.parametrize(
    ("domains", "search"),
    [
        ('{"training.epochs": [1, 2], "windows.overlap": 64}', "grid"),
        ('{"training.epochs": tune.grid_search([1, 2]), "windows.overlap": 64}', "grid"),
        ('{"training.epochs": [1, 2], "windows.overlap": tune.choice([8, 64])}', None),
    ],
)
def test_lists_alone_are_a_grid(tmp_path: Path, domains: str, search: str | None) -> None:
    (tmp_path / "lists.py").write_text(f"from ray import tune\ndef space():\n    return {domains}\n")
    assert load_space(str(tmp_path / "lists.py")).search == search


def test_values_of_a_space_are_told_apart_and_equal_ones_are_one(tmp_path: Path) -> None:
    made = [
        "tune.uniform(0.001, 0.01)",
        "tune.quniform(0.001, 0.01, 0.001)",
        "tune.loguniform(0.001, 0.01)",
        "tune.qloguniform(0.001, 0.01, 0.001)",
        "[1, 2, 1]",
        '["1", "2", "1"]',
        "[(1, 2), (1,), (1, 2)]",
    ]
    spaces = []
    for domain in made:
        (tmp_path / "some.py").write_text(f"from ray import tune\ndef space(): return {{'a': {domain}}}\n")
        spaces.append(load_space(str(tmp_path / "some.py")))
    words = [described(space)["a"] for space in spaces]
    assert len(set(words)) == len(made)
    assert words[3] == "0.001 to 0.01 in steps of 0.001 (log)"
    assert [len(grid(space)) for space in spaces[4:]] == [2, 2, 2]
    # Optuna looks for the lists of trials among them.
    assert choices(spaces[-1].domains["a"]) == [[1, 2], [1], [1, 2]]
