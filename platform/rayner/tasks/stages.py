"""Stages in order: from texts to linked entities, as one predictor from documents to documents."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rayner.config.base import AskedPrecision, Precision
from rayner.config.documents import LEAST_ROOM, window_settings
from rayner.config.recipe_files import read_yaml
from rayner.data.schema import Document
from rayner.errors import InputError, RecipeError
from rayner.files.fetching import local
from rayner.files.run_checkpoints import checkpoint_of, named_checkpoint
from rayner.files.uris import without_file_scheme
from rayner.models.precision import check_precision, default_precision
from rayner.tasks.base import Predictor
from rayner.tasks.checkpoint import Checkpoint, load_checkpoint, nothing_to_answer, read_recipe
from rayner.tasks.checkpoint_files import check_files
from rayner.tasks.encoder_task import default_device
from rayner.tasks.link_scores import Linking
from rayner.tasks.predict import as_documents, as_mentions, checked, has_spare_core, predict, stages_of
from rayner.tasks.registry import task_of
from rayner.tasks.stage_chain import chain
from rayner.tasks.stage_contexts import read_stage_contexts, with_contexts, with_stage_contexts
from rayner.tasks.stage_settings import StageSettings, absolute, check_types, never_learned, without_mentions

ORDER = ("contexts", "mentions", "types", "entities")
"""Each adds to what those before it left in a document."""


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """A checkpoint alone, or the stages of a pipeline file. It pickles.

    Args:
        stages: in order.
        is_file: whether they came from a pipeline file, and so go from documents to documents.
        precision: of all stages; by default as the device says, and with `auto` as the first one is fastest.
    """

    stages: tuple[StageSettings, ...]
    is_file: bool
    precision: AskedPrecision = None

    @property
    def version(self) -> str:
        """The versions of all that answers, joined by `+`, and their precision where it is another than
        float32.

        Raises:
            CheckpointError: a folder is no checkpoint.
        """
        return "+".join(stage.version for stage in self.stages) + suffix(self.precision)

    def decided(self, device: str | None = None) -> PipelineSettings:
        """With the precision that it has on the device, so that all who load it take the same.

        Raises:
            InputError: the device lacks what was asked for.
        """
        device = device or default_device()
        if self.precision is None:
            return replace(self, precision=default_precision(device))
        if self.precision != "auto":
            check_precision(self.precision, device)
            return self
        return replace(self, precision=load_checkpoint(self.stages[0].checkpoint, device, "auto").precision)

    @property
    def options(self) -> list[dict[str, Any]]:
        """What changes answers beside the files."""
        return [stage.options.model_dump(mode="json", exclude=stage.options.paths()) for stage in self.stages]

    @property
    def answers_documents(self) -> bool:
        """Whether it takes documents."""
        return self.is_file or self.stages[0].record.stage in ("mentions", "types")

    @property
    def links(self) -> Callable[[str], bool]:
        """Whether mentions of a type are looked up in a knowledge base."""
        types = [s.options.asked_types for s in self.stages if s.record.stage == "entities"]
        return lambda name: any(names is None or name in names for names in types)

    @property
    def finds_mentions(self) -> bool:
        """Whether it takes texts in which nothing is marked."""
        return any(stage.record.stage == "mentions" for stage in self.stages)

    @property
    def new_types(self) -> dict[str, Any]:
        """Types that are asked for and were never learned, each with how its threshold is had."""
        return never_learned(self.stages)

    def check(self) -> None:
        """Find out before the work begins, and in this process, whether the files can be used.

        Raises:
            CheckpointError: a file is missing or damaged.
            InputError: options that cannot be had, or an index that is damaged or another's.
        """
        if any(stage.options.paths() for stage in self.stages):
            self.pipeline("cpu")
        else:
            for stage in self.stages:
                check_files(stage.checkpoint)
                if stage.context is not None:
                    stage.context.check()

    def load(self, device: str | None = None) -> Predictor[Any, Any, Any, Any]:
        """The predictor alone; as `pipeline`."""
        return self.pipeline(device).predictor

    def pipeline(
        self,
        device: str | None = None,
        load: Callable[[Path, str | None, AskedPrecision], Checkpoint] = load_checkpoint,
    ) -> Pipeline:
        """The models, ready to predict.

        Args:
            device: by default a GPU where there is one.
            load: the model of a folder on a device; one that remembers lets pipelines share their models.

        Raises:
            CheckpointError: a checkpoint that is damaged, or has nothing to answer.
            InputError: as `check`.
        """
        loaded: list[Checkpoint] = []
        precision = self.precision
        for stage in self.stages:
            one = load(stage.checkpoint, device, precision)
            loaded.append(one if stage.context is None else with_stage_contexts(one, stage.context))
            precision = loaded[0].precision
        settings = replace(self, precision=precision)
        predictors = [one.predictor(s.options) for one, s in zip(loaded, self.stages, strict=True)]
        if not self.is_file:
            return Pipeline(settings, loaded, predictors[0])
        stages = [
            one.record.as_stage(predictor, s.options)
            for one, predictor, s in zip(loaded, predictors, self.stages, strict=True)
        ]
        check_types(self.stages, stages)
        return Pipeline(settings, loaded, chain(stages))


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A checkpoint or the stages of a pipeline, ready to predict."""

    settings: PipelineSettings
    checkpoints: Sequence[Checkpoint] = field(repr=False)
    predictor: Predictor[Any, Any, Any, Any] = field(repr=False)

    @property
    def precision(self) -> Precision:
        """What its encoders compute in."""
        return self.checkpoints[0].precision

    @property
    def new_types(self) -> dict[str, Any]:
        """Types that are asked for and were never learned, each with how its threshold is had: `dynamic`, as
        for all types of the model, or the `mean` of those that were learned or tuned."""
        found: dict[str, Any] = {}
        for one, stage in zip(self.checkpoints, self.settings.stages, strict=True):
            found |= one.task.new_types(stage.options)
        return found

    @property
    def after_mentions(self) -> Any:
        """The stages that work on mentions, as one predictor; None where there is none."""
        names = [stage.record.stage for stage in self.settings.stages]
        # A typer may read the contexts that a stage before it chose.
        kept = {"contexts", "types", "entities"} if "types" in names else {"entities"}
        own = zip(names, stages_of(self.predictor), strict=True)
        stages = [stage for name, stage in own if name in kept]
        return chain(stages) if stages else None

    def predict(
        self, items: str | Document | Iterable[Any], tokens_per_batch: int | None = None
    ) -> list[Any]:
        """The answer to each item, in order.

        Args:
            items: texts or documents, or one of them; for a standardizer alone, mentions. Where no stage
                finds mentions, documents that have some.
            tokens_per_batch: padded tokens a batch: memory against speed.

        Returns:
            The documents with what was found in them: mentions, and with a standardizer among the stages
            their entities (None is NIL), candidates and probabilities. For a standardizer alone, an answer
            each.

        Raises:
            InputError: an item that is none of these, by its place; or no number of tokens.
        """
        # All are read before the first is answered: a generator of the caller runs in the caller's thread.
        return list(self.answers(list(checked(items)), tokens_per_batch))

    def answers(self, items: Iterable[Any], tokens_per_batch: int | None = None) -> Iterator[Any]:
        """As `predict`, one answer after the other; items are read some batches ahead, also by a thread."""
        given: Iterable[Any] = checked(items)
        if self.settings.answers_documents:
            finds = any(one.record.stage == "mentions" for one in self.checkpoints)
            stages, is_file = self.settings.stages, self.settings.is_file
            given = as_documents(given, None if finds else lambda: without_mentions(stages, is_file))
        elif self.settings.stages[0].record.stage == "entities":
            given = as_mentions(given)
        elif self.settings.stages[0].record.kind.are_documents:
            given = as_documents(given, None)
        return predict(self.predictor, given, tokens_per_batch, has_spare_core())

    @property
    def reads_contexts(self) -> bool:
        """Whether a checkpoint of it reads sentences with contexts of its own choice."""
        return any(one.task.contexts for one in self.checkpoints)

    def with_contexts(self, document: Document) -> Document:
        """An answer with the contexts that were chosen for its sentences, where there are any."""
        return with_contexts(document, self.checkpoints)

    def entity_names(self, ids: Collection[str]) -> dict[str, str]:
        """The names of entities of the knowledge bases that are linked to, by id."""
        found: dict[str, str] = {}
        for stage in stages_of(self.predictor):
            if isinstance(stage, Linking):
                found |= stage.names_of(ids)
        return found


def read_pipeline(
    path: str | Path, options: Mapping[str, Any] | None = None, precision: AskedPrecision = None
) -> PipelineSettings:
    """The pipeline of a checkpoint folder, of a run (its `best`) or of a pipeline file.

    A pipeline file is YAML: `stages`, a list, each with its `checkpoint` and the options of its task, such as
    `index` and `types` of a standardizer, and `context` in place of that of its recipe. Paths count from the
    file's folder. Without a stage that finds mentions, documents bring their own.

    Args:
        options: in place of the checkpoint's defaults, by name; None means that it is not asked for.
        precision: what encoders compute in.

    Raises:
        CheckpointError: a folder is no checkpoint, or a pre-training, which has nothing to answer.
        RecipeError: the file, the key that is wrong and the nearest known one.
        InputError: an option that the task does not have, or no path.
    """
    path = checkpoint_of(absolute(path))
    asked = {name: value for name, value in (options or {}).items() if value is not None}
    if not local(path).is_file():
        recipe = read_recipe(path)
        if not (record := task_of(recipe)).answers:
            raise nothing_to_answer(path, record)
        checked_options = record.options.of(asked, recipe.task)
        stage = StageSettings(path, checked_options.rooted(Path.cwd()))
        return PipelineSettings((stage,), is_file=False, precision=precision)
    if asked:
        what = f"{', '.join(asked)} cannot be asked of a whole pipeline"
        raise InputError(str(path), what, "write the option to its stage in the file")
    values = read_yaml(path, "a checkpoint folder or a pipeline file")
    listed = values.get("stages") if isinstance(values, dict) else None
    if not isinstance(listed, list) or not listed or set(values) != {"stages"}:
        what = "is no pipeline: it needs the key `stages`, a list, and no other"
        raise RecipeError(str(path), what, "write `stages:` and below it `- checkpoint: RUN/best`")
    stages = tuple(_stage(value, f"{path}: stages.{i}", path.parent) for i, value in enumerate(listed))
    order = [ORDER.index(stage.record.stage or "") for stage in stages]
    if order != sorted(order):
        names = ", ".join(str(stage.record.stage) for stage in stages)
        raise RecipeError(str(path), f"has its stages in the order {names}", f"write {', '.join(ORDER)}")
    twice = [name for name in ORDER[:-1] if order.count(ORDER.index(name)) > 1]
    if twice:
        what = f"has more than one stage of {twice[0]}"
        raise RecipeError(str(path), what, "keep one; only stages of entities may be several, one an index")
    if order[0] == 0 and not any(_reads_contexts(stage) for stage in stages):
        what = "has a stage of contexts, and no stage that reads them"
        raise RecipeError(str(path), what, "train the others with windows.context, or leave it out")
    if order[0] == 0 and any(stage.context is not None for stage in stages):
        what = "has both a stage of contexts and the key `context`"
        raise RecipeError(str(path), what, "keep one: a sentence is given contexts once")
    return PipelineSettings(stages, is_file=True, precision=precision)


def one_stage(path: str | Path, name: str) -> StageSettings | None:
    """Of a pipeline file, its one stage of that name, for what is about that stage alone; None of a folder.

    Raises:
        CheckpointError, RecipeError: as `read_pipeline`; the file has none, or several.
    """
    if not local(checkpoint_of(absolute(path))).is_file():
        return None
    found = [stage for stage in read_pipeline(path).stages if stage.record.stage == name]
    if len(found) != 1:
        what = f"has {len(found) or 'no'} stage{'s' if found else ''} of {name}, and one is wanted"
        raise RecipeError(str(path), what, "name the checkpoint itself, such as RUN/best")
    return found[0]


def checkpoint_in(path: str | Path, name: str, contexts: bool = True) -> Path:
    """The checkpoint of `one_stage`, or the folder; raises as that, or as `check_contexts` without them."""
    stage = one_stage(path, name)
    if stage is not None and not contexts:
        stage.check_contexts()
    return Path(without_file_scheme(path)) if stage is None else stage.checkpoint


def load_pipeline(
    path: str | Path, /, device: str | None = None, precision: AskedPrecision = None, **options: Any
) -> Pipeline:
    """`read_pipeline`, loaded."""
    return read_pipeline(path, options, precision).pipeline(device)


def suffix(precision: AskedPrecision) -> str:
    """What a version says of the precision: nothing of float32, or of one that is not decided yet."""
    return "" if precision in (None, "auto", "float32") else f"+{precision}"


def _reads_contexts(stage: StageSettings) -> bool:
    windows = window_settings(read_recipe(stage.checkpoint))
    return windows is not None and windows.context >= LEAST_ROOM


def _stage(value: Any, where: str, folder: Path) -> StageSettings:
    if not isinstance(value, dict) or not isinstance(value.get("checkpoint"), str):
        raise RecipeError(where, "names no checkpoint", "write `checkpoint: RUN/best`")
    checkpoint = named_checkpoint(value["checkpoint"], folder, f"{where}.checkpoint")
    if checkpoint.is_file():
        hint = "name a folder, or list the stages of that file here"
        raise RecipeError(f"{where}.checkpoint", "is a file", hint)
    recipe = read_recipe(checkpoint)
    record = task_of(recipe)
    if not record.answers:
        raise nothing_to_answer(checkpoint, record)
    if record.stage is None:
        raise RecipeError(where, f"task {recipe.task} is no stage of a pipeline", "leave it out")
    try:
        others = {k: v for k, v in value.items() if k not in ("checkpoint", "context")}
        options = record.options.of(others, recipe.task)
    except InputError as error:
        place = where if error.where == "options" else f"{where}.{error.where}"
        raise RecipeError(place, error.what, error.hint) from None
    context = None
    if "context" in value:
        context = read_stage_contexts(value["context"], f"{where}.context", folder, recipe)
    return StageSettings(checkpoint, options.rooted(folder), context, where)
