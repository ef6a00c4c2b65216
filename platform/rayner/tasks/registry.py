"""The tasks by name: one record each, with all that the rest of rayner needs to know of it.

A task of another package is registered by an entry point of the group `rayner.tasks`, or by the environment
variable RAYNER_TASKS, which reaches Ray's workers: `package.module:RECORD`, several with commas between.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

from rayner.config import (
    BaseRecipe,
    ChainsRecipe,
    RankerRecipe,
    RecognizerRecipe,
    StandardizerRecipe,
    TaggerRecipe,
    TyperRecipe,
    recipe_files,
)
from rayner.config.coreference import CoreferenceRecipe
from rayner.config.gaussian import GaussianRecipe
from rayner.data.schema import Document
from rayner.errors import InputError, RecipeError
from rayner.models.encoder import Tokenizer
from rayner.tasks.base import Mode, Predictor
from rayner.tasks.chains.task import ChainsTask
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.coreference import CoreferenceTask
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.gaussian.task import GaussianOptions, GaussianTask
from rayner.tasks.kinds.base import Kind
from rayner.tasks.kinds.coreference import Coreference
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.kinds.mentions import Mentions
from rayner.tasks.kinds.pairs import Pairs
from rayner.tasks.kinds.pretraining import PretrainingDocuments
from rayner.tasks.kinds.stories import Stories
from rayner.tasks.kinds.typed_mentions import TypedMentions
from rayner.tasks.predictor_options import Options
from rayner.tasks.ranker.task import RankerOptions, RankerTask
from rayner.tasks.recognizer.added_types import with_added_types
from rayner.tasks.recognizer.adding import recognizer_task
from rayner.tasks.recognizer.task import RecognizerOptions
from rayner.tasks.standardizer.linking_options import StandardizerOptions
from rayner.tasks.standardizer.stage import Entities
from rayner.tasks.standardizer.task import StandardizerTask
from rayner.tasks.tagger.task import TaggerTask
from rayner.tasks.typer.predictor import TypeStage
from rayner.tasks.typer.task import TyperOptions, TyperTask

VARIABLE, GROUP = "RAYNER_TASKS", "rayner.tasks"

Stage = Predictor[Document, Any, Any, Document]
"""A predictor from documents to documents, which adds to what the stage before left in them."""


def _itself(predictor: Predictor[Any, Any, Any, Any], options: Any) -> Stage:
    return predictor


@dataclass(frozen=True, slots=True)
class Task:
    """What there is to know of a task.

    Attributes:
        name: `task:` in a recipe.
        recipe: the recipe's type.
        learn: the recipe, and the tokenizer of a checkpoint or None -> how it learns and answers.
        kind: the items that a predictor of it is given and scored on.
        options: what a caller may ask of a predictor.
        stage: what it adds to documents; None where it is no stage of a pipeline.
        as_stage: the predictor and its options -> the predictor as that stage.
        add_types: a recipe and a checkpoint -> the recipe of a training in which the recipe's types learn
            alone, beside those of the checkpoint; None where they cannot.
        answers: whether it ever has a predictor; not a pre-training that leaves an encoder alone.
        knows_uncertainty: whether it learns as `uncertainty.KnowsUncertainty` says.
    """

    name: str
    recipe: type[BaseRecipe]
    learn: Callable[[Any, Tokenizer | None], EncoderTask[Any]]
    kind: Kind
    options: type[Options] = Options
    stage: Literal["contexts", "mentions", "types", "entities"] | None = None
    as_stage: Callable[[Predictor[Any, Any, Any, Any], Any], Stage] = _itself
    add_types: Callable[[Any, Path], BaseRecipe] | None = None
    answers: bool = True
    knows_uncertainty: bool = False

    @property
    def metrics(self) -> Mapping[str, Mode]:
        """What is reported at the top level, and whether more or less of it is better."""
        return self.kind.metrics


OWN = (
    Task(
        name="recognizer",
        recipe=RecognizerRecipe,
        learn=recognizer_task,
        kind=Documents(),
        options=RecognizerOptions,
        stage="mentions",
        add_types=with_added_types,
        knows_uncertainty=True,
    ),
    Task(
        name="tagger",
        recipe=TaggerRecipe,
        learn=TaggerTask,
        kind=Documents(),
        stage="mentions",
        knows_uncertainty=True,
    ),
    Task(
        name="gaussian",
        recipe=GaussianRecipe,
        learn=GaussianTask,
        kind=PretrainingDocuments(),
        options=GaussianOptions,
        stage="mentions",
        knows_uncertainty=True,
    ),
    Task(
        name="standardizer",
        recipe=StandardizerRecipe,
        learn=StandardizerTask,
        kind=Mentions(),
        options=StandardizerOptions,
        stage="entities",
        as_stage=lambda predictor, options: Entities(predictor, options.types),  # pyright: ignore
    ),
    Task(name="chains", recipe=ChainsRecipe, learn=ChainsTask, kind=Stories(), answers=False),
    Task(name="coreference", recipe=CoreferenceRecipe, learn=CoreferenceTask, kind=Coreference()),
    Task(
        name="typer",
        recipe=TyperRecipe,
        learn=TyperTask,
        kind=TypedMentions(),
        options=TyperOptions,
        stage="types",
        as_stage=lambda predictor, options: TypeStage(predictor),  # pyright: ignore
    ),
    Task(
        name="ranker",
        recipe=RankerRecipe,
        learn=RankerTask,
        kind=Pairs(),
        options=RankerOptions,
        stage="contexts",
        as_stage=lambda predictor, options: ContextStage(options, predictor),  # pyright: ignore
    ),
)


def tasks() -> Mapping[str, Task]:
    """Every task by its name.

    Raises:
        InputError: a task of another package that cannot be imported, or has a name that is taken.
    """
    return _tasks(os.environ.get(VARIABLE, ""))


def task_of(recipe: BaseRecipe | str) -> Task:
    """The record of a recipe's task, or of a name."""
    return tasks()[recipe if isinstance(recipe, str) else recipe.task]


def train_task(recipe: BaseRecipe, tokenizer: Tokenizer | None = None) -> EncoderTask[Any]:
    """How a recipe's task learns and answers; `tokenizer` is that of a checkpoint."""
    return task_of(recipe).learn(recipe, tokenizer)


def recipes() -> recipe_files.Recipes:
    """The recipe type of each task."""
    return {name: task.recipe for name, task in tasks().items()}


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Any:
    """As `recipe_files.load_recipe`, of any task there is."""
    return recipe_files.load_recipe(path, recipes(), overrides)


def adding_types(recipe: BaseRecipe, checkpoint: Path) -> BaseRecipe:
    """The recipe of a training in which the recipe's types learn alone, beside those of a checkpoint.

    Raises:
        RecipeError: a task that cannot do so, a type that the checkpoint has, or settings that differ.
        CheckpointError: the folder is no checkpoint of that task.
    """
    add = task_of(recipe).add_types
    if add is None:
        able = ", ".join(name for name, task in tasks().items() if task.add_types is not None)
        raise RecipeError("task", f"types cannot be added to a {recipe.task}", f"train a {able}")
    return add(recipe, checkpoint)


def parse_recipe(values: Mapping[str, Any], where: str) -> Any:
    """As `recipe_files.parse_recipe`, of any task there is."""
    return recipe_files.parse_recipe(values, where, recipes())


@cache
def _tasks(variable: str) -> Mapping[str, Task]:
    found = {task.name: task for task in OWN}
    names = filter(None, map(str.strip, variable.split(",")))
    others = [
        *((f"entry point {GROUP}: {point.value}", point.load) for point in entry_points(group=GROUP)),
        *((f"{VARIABLE}={name}", partial(_imported, name)) for name in names),
    ]
    for where, load in others:
        try:
            task = load()
        except (ImportError, AttributeError, ValueError) as error:
            what = f"the task cannot be imported ({error})"
            hint = "write package.module:RECORD"
            if isinstance(error, ModuleNotFoundError) and ":" in where.rpartition(" ")[2]:
                hint = "install the package, or put its folder on PYTHONPATH"
            raise InputError(where, what, hint) from None
        if not isinstance(task, Task):
            what = f"is a {type(task).__name__}, no rayner.tasks.registry.Task"
            raise InputError(where, what, "name the record of a task")
        if found.get(task.name, task) is not task:
            raise InputError(where, f"there is a task {task.name!r} already", "rename it")
        found[task.name] = task
    return found


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
