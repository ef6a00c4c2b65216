"""Ranges and lists of a space: their words, what recipes and Optuna take of them, and drawn numbers."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from ray import tune

from rayner.errors import InputError, RecipeError
from rayner.runtime.sweeps.domains import plain, range_of
from rayner.runtime.sweeps.ray_tune import most_epochs
from rayner.runtime.sweeps.sampling import draws, grid, planned_settings
from rayner.runtime.sweeps.space import Space, check_space, described, warn_of_overrides
from rayner.runtime.sweeps.sweep_settings import resolve_settings
from rayner.tasks.registry import parse_recipe

RATE, AVERAGE, EPOCHS = "training.learning_rate", "training.average", "training.epochs"


def recipe() -> Any:
    types = [{"name": "PER", "description": "people"}]
    return parse_recipe(
        {"task": "tagger", "corpus": {"train": ["a"], "dev": ["b"]}, "types": types}, "recipe"
    )


def space(search: Any = None, **domains: Any) -> Space:
    return Space("mine", {f"training.{key}": domain for key, domain in domains.items()}, search=search)


def test_a_few_of_a_grid_are_drawn_without_its_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayner.runtime.sweeps.sampling.grid", lambda _: pytest.fail("all were listed"))
    large = space("grid", **{f"key{number}": tune.choice([1, 2, 3, 4, 5]) for number in range(20)})
    assert len(planned_settings(large, resolve_settings(large, recipe(), trials=3)) or ()) == 3


def test_values_that_are_listed_twice_make_no_more_trials() -> None:
    twice = space("grid", learning_rate=tune.choice([0.1, 0.2, 0.1]), clip=tune.choice([1, 2]))
    planned = planned_settings(twice, resolve_settings(twice, recipe(), trials=4)) or []
    assert planned == grid(twice)
    assert len(planned) == 4


def test_the_order_of_the_keys_changes_no_trial() -> None:
    domains = {"learning_rate": tune.loguniform(1e-4, 1e-2), "weight_decay": tune.uniform(0, 0.1)}
    swapped = dict(reversed(domains.items()))
    assert draws(space(**domains), 5, seed=1) == draws(space(**swapped), 5, seed=1)


def test_whole_numbers_are_told_from_real_ones_up_to_their_last() -> None:
    kinds = [tune.randint(1, 4), tune.uniform(1, 4), tune.qrandint(1, 4, 1), tune.quniform(1, 4, 1)]
    assert [described(space(epochs=domain))[EPOCHS] for domain in kinds] == [
        "1 to 3, whole numbers",
        "1 to 4",
        "1 to 4, whole numbers in steps of 1",
        "1 to 4 in steps of 1",
    ]


@pytest.mark.parametrize(
    ("between", "keys"),
    [
        ("1.37", {"epochs": tune.uniform(1, 4)}),
        ("1.5", {"epochs": tune.quniform(1, 4, 0.5)}),
        ("2048.37", {"tokens_per_step": tune.loguniform(2048, 4096)}),
    ],
)
def test_real_numbers_for_a_key_of_whole_ones_are_refused(between: str, keys: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=f"integer, not {between}; draw whole numbers with tune.randint"):
        check_space(space(**keys), recipe())
    # Refused by raising.
    for domain in (tune.randint(1, 4), tune.quniform(1, 4, 1)):
        check_space(space(epochs=domain), recipe())


def test_epochs_may_be_text() -> None:
    text = space(epochs=tune.choice(["3", "5"]))
    check_space(text, recipe())
    assert most_epochs(resolve_settings(text, recipe(), scheduler="asha"), text, recipe()) == 5


@pytest.mark.parametrize("domain", [tune.qlograndint(256, 1024, 256), tune.qloguniform(1e-4, 1e-2, 5e-5)])
def test_steps_that_optuna_does_not_draw_in_are_refused(domain: Any) -> None:
    steps = space(tokens_per_step=domain)
    assert planned_settings(steps, resolve_settings(steps, recipe(), trials=2, search="random"))
    with pytest.raises(InputError, match=r"tokens_per_step has steps .* scale.*say --search random"):
        planned_settings(steps, resolve_settings(steps, recipe(), search="optuna"))


def test_arrays_are_lists() -> None:
    assert [plain(value) for value in (np.float64(0.5), np.array([1, 2]), (1, 2))] == [0.5, [1, 2], [1, 2]]


@pytest.mark.parametrize(
    ("domain", "digits"),
    [
        (tune.uniform(0, 0.5), 4),
        (tune.loguniform(2e-5, 1e-3), 4),
        (tune.uniform(0.9, 0.999), 4),
        (tune.quniform(0.001, 0.01, 0.001), 4),
        (tune.uniform(0.001, 0.001), 4),
        (tune.uniform(0.9999, 0.99999), 6),
        (tune.quniform(0.9, 0.99995, 0.00005), 5),
    ],
)
def test_a_number_has_more_digits_where_few_do_not_tell_it_apart(domain: Any, digits: int) -> None:
    assert range_of(domain).digits == digits


def test_a_drawn_number_stays_in_its_range() -> None:
    drawn = range_of(tune.uniform(0.12344, 2 / 3))
    assert [drawn.rounded(value) for value in (0.123441, 0.5 + 1e-9, 0.66666)] == [0.12344, 0.5, 0.66666]
    found = [row[AVERAGE] for row in draws(space(average=tune.uniform(0.9999, 0.99999)), 16, seed=1)]
    assert len(found) == 16
    assert all(0.9999 <= value <= 0.99999 for value in found)


def test_fewer_trials_than_asked_for_are_told(caplog: pytest.LogCaptureFixture) -> None:
    assert len(draws(space(clip=tune.choice([1, 2])), 5, seed=1)) == 2
    assert "2 trials in place of 5: space mine has hardly more different settings" in caplog.text


@pytest.mark.parametrize(("trials", "fewer"), [(None, True), (6, False), (4, None)])
def test_optuna_is_not_asked_where_the_space_has_no_more_settings(
    caplog: pytest.LogCaptureFixture, trials: int | None, fewer: bool | None
) -> None:
    few = space("optuna", learning_rate=tune.choice([0.1, 0.2, 0.3, 0.1]), clip=tune.choice([1, 2]))
    planned = planned_settings(few, resolve_settings(few, recipe(), trials=trials))
    assert planned == (None if fewer is None else grid(few))
    told = "6 trials in place of 16: space mine has hardly more different settings"
    assert (told in caplog.text) is bool(fewer)
    mixed = space("optuna", learning_rate=tune.uniform(0, 1), clip=tune.choice([1, 2]))
    assert planned_settings(mixed, resolve_settings(mixed, recipe(), trials=trials)) is None


def test_an_override_of_a_searched_key_is_told_to_have_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    searched = space(learning_rate=tune.uniform(0, 1))
    warn_of_overrides(searched, [f"{RATE}=0.1", "training.epochs=3", "training.learning=1"])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"--set {RATE} has no effect: the space mine searches it" in caplog.text


@pytest.mark.parametrize("key", ["scaling.cpus_per_worker", "tracking.mlflow", "scaling", "tracking"])
def test_what_is_the_same_in_all_trials_is_not_searched(key: str) -> None:
    with pytest.raises(InputError, match=f"{key} is (the same in all trials|set by the sweep)"):
        check_space(Space("mine", {key: tune.choice([1])}), recipe())
