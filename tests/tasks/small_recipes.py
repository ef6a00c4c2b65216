"""A recipe for each task that is small enough to train within a second, with the files it names.

Some steps of two workers, or of three for the tasks in `OF_THREE`, leave one of them without an example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.chains.small_chains import chains_recipe
from tests.tasks.small_pairs import ranker_recipe
from tests.tasks.standardizer.small_names import small_recipe

OF_THREE = ("chains", "standardizer")
"""Their steps hold two examples at least, which are shared out among two workers."""


def _of_documents(
    task: str, training: Mapping[str, Any] | None = None, **parts: Any
) -> Callable[[Path], dict[str, Any]]:
    # Some steps hold a single window: of two workers, one has none.
    def values(folder: Path) -> dict[str, Any]:
        settings = {"tokens_per_step": 12, "epochs": 1, **(training or {})}
        found = tiny_recipe(folder, task, sentences=18, **settings) | parts
        return {key: value for key, value in found.items() if value is not None}

    return values


def _chains(folder: Path) -> dict[str, Any]:
    # Most stories are one window, and some steps two of them.
    return chains_recipe(folder, windows={"length": 32})


def _standardizer(folder: Path) -> dict[str, Any]:
    # Steps of two entities, some with a string that is longer than twice the others together.
    values = small_recipe(
        folder,
        groups={"group_size": 2, "groups_per_step": 2, "neighbours": 2},
        training={"tokens_per_forward": 60},
    )
    with (folder / "train.jsonl").open("a") as file:
        file.write(
            json.dumps({"mention": "a web server of the Apache foundation " * 6, "entity_id": "2"}) + "\n"
        )
    return values


def _coreference(folder: Path) -> dict[str, Any]:
    # Some steps hold a single window: of two workers, one has none.
    training = {"epochs": 1, "tokens_per_step": 20, "learning_rate": 1e-3, "log_every": 1}
    model = {"hidden_size": 16, "antecedents": 8}
    return chains_recipe(folder, task="coreference", training=training, model=model)


SMALL: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "recognizer": _of_documents(
        "recognizer", {"layer_decay": 0.9}, loss={"boundary_smoothing": 0.1, "r_drop": 0.5}
    ),
    "recognizer_self_training": _of_documents(
        "recognizer",
        {"epochs": 2, "average": 0.9},
        self_training={"start_epoch": 2, "confidence": 0.6},
    ),
    "tagger": _of_documents("tagger", {"average": 0.9}, calibration="temperature"),
    "tagger_crf": _of_documents("tagger", decoding="crf"),
    "gaussian": _of_documents("gaussian"),
    "standardizer": _standardizer,
    "chains": _chains,
    "coreference": _coreference,
    "typer": _of_documents("typer"),
    "ranker": ranker_recipe,
    "toy": _of_documents("toy", model=None),
}
"""By the task's name, or that of a variant; a task without an entry fails the contract."""
