"""Contexts of the checkpoints of a pipeline: those of their recipes, or what its file asks for instead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from rayner.config import BaseRecipe, ContextSettings, WindowSettings
from rayner.config.documents import LEAST_ROOM, window_settings
from rayner.config.recipe_files import parse_settings
from rayner.counted import counted
from rayner.data.schema import Document
from rayner.errors import RecipeError, shown
from rayner.tasks.checkpoint import Checkpoint
from rayner.tasks.contexts.in_recipes import RETRIEVER, SentenceContexts
from rayner.tasks.contexts.rankers import (
    RankerPlace,
    check_ranker,
    check_ranker_files,
    place_of_ranker,
    version_of_ranker,
)


class StageContexts(ContextSettings):
    """As in a recipe, and the room that contexts have."""

    budget: PositiveInt | None = None
    """Sub-words of a window that contexts may take. Null: as many as the checkpoint's `windows.context`."""

    @property
    def version(self) -> str:
        """What tells these contexts from any others."""
        values: dict[str, Any] = self.model_dump(mode="json")
        if self.place is not None:
            values["ranker"] = version_of_ranker(self.place)
        return "contexts-" + hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def place(self) -> RankerPlace | None:
        """That of the ranker, once `read_stage_contexts` has found it."""
        if self.ranker is None:
            return None
        path = Path(self.ranker)
        return path if path.is_absolute() else self.ranker

    def check(self) -> None:
        """Find out whether the files of the ranker can be used.

        Raises:
            CheckpointError: one is missing or damaged.
        """
        if self.place is not None:
            check_ranker_files(self.place)


def read_stage_contexts(value: Any, where: str, folder: Path, recipe: BaseRecipe) -> StageContexts:
    """The key `context` of a stage; a ranker's path counts from the folder.

    Raises:
        RecipeError: a wrong value, or a checkpoint that reads no contexts.
        InputError: as `check_ranker`.
    """
    if not isinstance(value, Mapping):
        what = f"{'null' if value is None else shown(value)} is no mapping of keys to values"
        hint = "write `methods: [bm25]` below it, or leave it out for the contexts of the checkpoint's recipe"
        raise RecipeError(where, what, hint)
    settings = parse_settings(StageContexts, value, where)
    if settings.ranker is not None:
        ranker = place_of_ranker(settings.ranker, folder, f"{where}.ranker")
        check_ranker(ranker, f"{where}.ranker")
        settings = settings.model_copy(update={"ranker": str(ranker)})
    windows = window_settings(recipe)
    if "context" not in type(recipe).model_fields or windows is None:
        raise RecipeError(where, f"task {recipe.task} reads no contexts", "leave it out")
    room, least = _windows(windows, settings, where).context, _least_room(settings)
    if not room:
        what = "asks for contexts, for which the checkpoint has no room (windows.context is 0)"
        raise RecipeError(where, what, "train it with windows.context, or give a `budget`")
    if room < least:
        what = f"has room of {counted(room, 'sub-word')}, too little for contexts beside their separators"
        raise RecipeError(where, what, f"give a `budget` of {least} or more")
    return settings


def _least_room(settings: StageContexts) -> int:
    """The sub-words in which one of a context has room wherever the contexts are: a separator for each side
    that has some."""
    is_one_sided = settings.count == 1 or settings.methods in (("before",), ("after",))
    return LEAST_ROOM if is_one_sided else LEAST_ROOM + 1


def with_stage_contexts(loaded: Checkpoint, settings: StageContexts) -> Checkpoint:
    """The checkpoint, its model shared, that reads the contexts of the settings and no others."""
    recipe: Any = loaded.recipe
    plain = ContextSettings(**settings.model_dump(exclude={"budget"}))
    windows = _windows(recipe.windows, settings, "context")
    recipe = recipe.model_copy(update={"context": plain, "windows": windows})
    # Trained without `dense`, a checkpoint has no encoder beside its own.
    own = loaded.folder / RETRIEVER
    encoder = str(own if own.is_dir() else loaded.folder)
    contexts = SentenceContexts(plain, settings.place, encoder, loaded.precision, loaded.task.device)
    task = copy(loaded.task)
    task.recipe = recipe
    vars(task).pop("_windows", None)
    vars(task)["contexts"] = contexts
    return replace(loaded, recipe=recipe, task=task)


def with_contexts(document: Document, checkpoints: Iterable[Checkpoint]) -> Document:
    """An answer with the contexts that the first of the checkpoints with any chose for its sentences; one
    that a stage gave contexts keeps those. Of long ones, windows may hold a part or none.

    Raises:
        CheckpointError: the ranker of a checkpoint cannot be used.
    """
    contexts = next(filter(None, (one.task.contexts for one in checkpoints)), None)
    return document if contexts is None else contexts.of(document)


def _windows(windows: WindowSettings, settings: StageContexts, where: str) -> WindowSettings:
    if settings.budget is None:
        return windows
    return parse_settings(WindowSettings, {**windows.model_dump(), "context": settings.budget}, where)
