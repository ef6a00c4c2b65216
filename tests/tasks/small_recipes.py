"""A recipe for each task that is small enough to train within a second, with the files it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.chains.small_chains import chains_recipe
from tests.tasks.small_pairs import ranker_recipe
from tests.tasks.standardizer.small_names import small_recipe


def _of_documents(task: str, **parts: Any) -> Callable[[Path], dict[str, Any]]:
    # Some steps hold a single window: of two workers, one has none.
    def values(folder: Path) -> dict[str, Any]:
        found = tiny_recipe(folder, task, tokens_per_step=12, epochs=1) | parts
        return {key: value for key, value in found.items() if value is not None}

    return values


def _standardizer(folder: Path) -> dict[str, Any]:
    # Steps of two entities, the last of few strings.
    return small_recipe(
        folder, groups={"group_size": 2, "groups_per_step": 2}, training={"tokens_per_forward": 60}
    )


def _coreference(folder: Path) -> dict[str, Any]:
    # Some steps hold a single window: of two workers, one has none.
    training = {"epochs": 1, "tokens_per_step": 20, "learning_rate": 1e-3, "log_every": 1}
    return chains_recipe(folder, task="coreference", training=training)


SMALL: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "recognizer": _of_documents("recognizer"),
    "tagger": _of_documents("tagger"),
    "gaussian": _of_documents("gaussian"),
    "standardizer": _standardizer,
    "chains": chains_recipe,
    "coreference": _coreference,
    "typer": _of_documents("typer"),
    "ranker": ranker_recipe,
    "toy": _of_documents("toy", model=None),
}
"""By the task's name; a task without an entry fails the contract."""
