"""What is asked of the stages of a pipeline, and whether their types go together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rayner.errors import RecipeError
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

    @property
    def version(self) -> str:
        """What tells its answers from those of any other."""
        own = [] if self.context is None else [self.context.version]
        return "+".join([version_of(self.checkpoint), *self.options.versions(), *own])


def never_learned(stages: Iterable[StageSettings]) -> dict[str, Any]:
    """Types that are asked for and were never learned, each with how its threshold is had."""
    found: dict[str, Any] = {}
    for stage in stages:
        folder = stage.checkpoint
        # What a typer has learned is among its files, what others have in their recipes.
        in_files = stage.record.stage == "types" and getattr(stage.options, "types", None)
        task = load_checkpoint(folder, "cpu").task if in_files else train_task(read_recipe(folder))
        found |= task.new_types(stage.options)
    return found


def check_types(settings: Sequence[StageSettings], stages: Sequence[Any]) -> None:
    """Refuse types to link that no stage before finds, where the stages say their `names`."""
    names: set[str] = set()
    for setting, stage in zip(settings, stages, strict=True):
        if setting.record.stage == "mentions":
            names |= set(getattr(stage, "names", ()))
        if setting.record.stage != "entities" or not names:
            continue
        if unknown := sorted(set(getattr(setting.options, "types", None) or ()) - names):
            what = f"links the type {', '.join(map(repr, unknown))}, which no stage before it finds"
            hint = f"the types are {', '.join(sorted(names))}"
            raise RecipeError(f"{setting.where}.types", what, hint)
