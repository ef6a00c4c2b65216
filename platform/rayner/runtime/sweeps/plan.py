"""What a sweep is: its configuration in `OUT/sweep.json`, and what every trial is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rayner.config import BaseRecipe
from rayner.config.base import MOST_SEEDS
from rayner.config.recipe_files import parse_settings, with_settings
from rayner.errors import InputError
from rayner.files.run_checkpoints import SWEEP
from rayner.runtime.run_folder import TRIALS
from rayner.runtime.sweeps.domains import Range, whole
from rayner.runtime.sweeps.sampling import single_values, trial_name
from rayner.runtime.sweeps.space import Space, described
from rayner.runtime.sweeps.sweep_settings import SweepSettings
from rayner.tasks.registry import parse_recipe


class Over(NamedTuple):
    """What a trial that is over has reported; its error if it failed for good."""

    reports: Sequence[Mapping[str, float]]
    error: str | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What every trial is given.

    `runs`: name of a run -> the settings that make it differ from others; `drawn`: the keys whose values Ray
    Tune draws from ranges, and these; `fixed`: those with one value, which need not be shown.

    A sweep in a folder has a `marker`: a file that a node must see before a trial begins on it. In `out` of
    one at a `uri` works its driver alone: each trial is put in place by the machine that it is on. A trial is
    told what the driver knows: which sweep it is of (`begun`), and which trials are `over`, by their names.
    `owner` is the driver, as who works at the URI.
    """

    recipe: BaseRecipe
    settings: SweepSettings
    out: Path
    cache: Path
    runs: Mapping[str, Mapping[str, Any]]
    working_folder: Path
    mlflow_parent: str | None = None
    drawn: Mapping[str, Range] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()
    marker: Path | None = None
    uri: str | None = None
    begun: str = ""
    owner: str = ""
    over: Mapping[str, Over] = field(default_factory=dict)

    def epochs_of(self, settings: Mapping[str, Any]) -> int:
        """The epochs of each run of the trial with these settings."""
        return whole(settings.get("training.epochs", self.recipe.training.epochs))

    def name_of(self, settings: Mapping[str, Any]) -> str:
        """The name of the trial with these settings."""
        return trial_name(settings, self.fixed)

    def folder(self, settings: Mapping[str, Any]) -> Path:
        """The folder of the trial with these settings."""
        return self.out / TRIALS / self.name_of(settings)

    def place(self, *names: str) -> Path:
        """Where something of the sweep is for all nodes: in its folder, or at its URI."""
        return Path(self.uri or self.out, *names)

    def recipe_of(self, settings: Mapping[str, Any], changes: Mapping[str, Any]) -> BaseRecipe:
        """The recipe of a run of a trial; raises RecipeError if the settings do not go together."""
        return with_settings(self.recipe, {**settings, **changes}, "trial")


def sweep_config(space: Space, recipe: BaseRecipe, settings: SweepSettings) -> dict[str, Any]:
    """What `sweep.json` holds: the space, the recipe and the settings as plain values."""
    return {
        "space": described(space),
        "fixed": sorted(single_values(space)),
        "recipe": recipe.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
    }


def read_config(out: Path) -> dict[str, Any]:
    """What `sweep_config` gave for the sweep in a folder.

    Raises:
        InputError: the file is damaged.
    """
    try:
        config = json.loads((out / SWEEP).read_text(encoding="utf-8"))
        if all(isinstance(config[part], dict) for part in ("recipe", "settings")):
            return config
    except (ValueError, KeyError, TypeError):
        pass
    hint = "start the sweep over with --fresh, or name another folder"
    raise InputError(str(out / SWEEP), "is cut short or not the file that a sweep wrote", hint)


def plan_of(out: Path) -> Plan:
    """The plan of the sweep in a folder, as far as reading its trials needs it.

    Raises:
        InputError: it cannot be read.
    """
    config = read_config(out)
    recipe = parse_recipe(config["recipe"], str(out / SWEEP))
    settings = parse_settings(SweepSettings, config["settings"], str(out / SWEEP))
    runs = {name: {"seed": seed} for name, _, seed in run_names(recipe, settings)}
    fixed = frozenset(config.get("fixed", ()))
    return Plan(recipe, settings, out, out / ".examples", runs, Path.cwd(), fixed=fixed)


def later_seed(seed: int, number: int) -> int:
    """The seed so many after another one; after the last one that a recipe may have comes 0."""
    return (seed + number) % MOST_SEEDS


def run_names(recipe: BaseRecipe, settings: SweepSettings) -> list[tuple[str, int, int]]:
    """The name, fold and seed of each run of a trial, in order."""
    seeds = [later_seed(recipe.seed, number) for number in range(settings.seeds)]
    if not settings.folds:
        return [(f"seed{seed}", 0, seed) for seed in seeds]
    return [(f"fold{fold}-seed{seed}", fold, seed) for fold in range(settings.folds) for seed in seeds]
