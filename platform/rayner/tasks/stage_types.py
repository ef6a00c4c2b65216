"""The types that the stages of a pipeline are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rayner.errors import RecipeError
from rayner.tasks.checkpoint import load_checkpoint, read_recipe
from rayner.tasks.registry import train_task

if TYPE_CHECKING:
    from rayner.tasks.stages import StageSettings


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
    for number, (setting, stage) in enumerate(zip(settings, stages, strict=True)):
        names |= set(getattr(stage, "names", ()))
        if setting.record.stage != "entities" or not names:
            continue
        if unknown := sorted(set(getattr(setting.options, "types", None) or ()) - names):
            what = f"links the type {', '.join(map(repr, unknown))}, which no stage before it finds"
            hint = f"the types are {', '.join(sorted(names))}"
            raise RecipeError(f"the pipeline: stages.{number}.types", what, hint)
