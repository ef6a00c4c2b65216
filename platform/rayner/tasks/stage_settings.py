"""What is asked of the stages of a pipeline, and whether their types go together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from rayner.errors import InputError, RecipeError
from rayner.files.uris import without_file_scheme
from rayner.tasks.base import type_names
from rayner.tasks.card import commands_for
from rayner.tasks.checkpoint import load_checkpoint, read_recipe, version_of
from rayner.tasks.predictor_options import Options
from rayner.tasks.registry import Task, task_of, train_task
from rayner.tasks.stage_contexts import StageContexts


@dataclass(frozen=True, slots=True)
class StageSettings:
    """A checkpoint, and what is asked of it."""

    checkpoint: Path
    options: Options
    context: StageContexts | None = None
    """In place of those of the checkpoint's recipe."""
    where: str = field(default="a pipeline", compare=False)
    """The place that an error of its settings names."""

    @property
    def record(self) -> Task:
        """The record of the checkpoint's task."""
        return task_of(read_recipe(self.checkpoint))

    def check_contexts(self) -> None:
        """Refuse contexts in place of those of the checkpoint, for what reads its own alone.

        Raises:
            RecipeError: the stage has some.
        """
        if self.context is not None:
            what = "is not read by what is about this stage alone"
            hint = f"leave it out, or name the checkpoint itself, {self.checkpoint}"
            raise RecipeError(f"{self.where}.context", what, hint)

    @property
    def version(self) -> str:
        """What tells its answers from those of any other."""
        own = [] if self.context is None else [self.context.version]
        return "+".join([version_of(self.checkpoint), *self.options.versions(), *own])


def absolute(path: Any) -> Path:
    """The path of a checkpoint or a pipeline file from the root on.

    Raises:
        InputError: it is none, or empty, which would be the working directory.
    """
    if not isinstance(path, str | PathLike) or not str(path):
        hint = "give a folder such as RUN/best, or a pipeline file"
        raise InputError("checkpoint", f"{path!r:.60} names none", hint)
    return Path(without_file_scheme(path)).absolute()


def never_learned(stages: Iterable[StageSettings]) -> dict[str, Any]:
    """Types that are asked for and were never learned, each with how its threshold is had."""
    found: dict[str, Any] = {}
    for stage in stages:
        folder = stage.checkpoint
        # What a typer has learned is among its files, what others have in their recipes.
        in_files = stage.record.stage == "types" and stage.options.asked_types
        task = load_checkpoint(folder, "cpu").task if in_files else train_task(read_recipe(folder))
        found |= task.new_types(stage.options)
    return found


def without_mentions(stages: Sequence[StageSettings], is_file: bool) -> tuple[str, str]:
    """What is wrong with a text, where no stage finds mentions in it, and what to do about it."""
    if is_file:
        what = "no stage of the file finds mentions in a text"
        return what, "write the checkpoint of a recognizer or tagger before its stages"
    record, folder = stages[0].record, stages[0].checkpoint
    hint = "name a recognizer, a tagger, a standardizer or a pipeline file"
    for command in commands_for(record.kind.card(read_recipe(folder)), str(folder)):
        if command.startswith("rayner corpus"):
            hint = f"what it is for is {command}"
    return f"task {record.name} finds nothing in a text by itself", hint


def check_types(settings: Sequence[StageSettings], stages: Sequence[Any]) -> None:
    """Refuse types to link that no stage before finds, where the stages say their `names`."""
    names: set[str] = set()
    for setting, stage in zip(settings, stages, strict=True):
        if setting.record.stage == "mentions":
            names |= set(type_names(stage))
        if setting.record.stage != "entities" or not names:
            continue
        if unknown := sorted(set(setting.options.asked_types or ()) - names):
            what = f"links the type {', '.join(map(repr, unknown))}, which no stage before it finds"
            hint = f"the types are {', '.join(sorted(names))}"
            raise RecipeError(f"{setting.where}.types", what, hint)
