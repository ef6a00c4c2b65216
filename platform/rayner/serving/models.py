"""The models that answer now: loaded whole, swapped whole, each with its version."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, cast

from rayner.config.base import AskedPrecision
from rayner.config.documents import listed_types
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.models.precision import default_precision
from rayner.serving.application_settings import ModelSettings, ServedBaseSettings
from rayner.serving.knowledge import (
    ServedKnowledgeBase,
    default_bases,
    name_of,
    one_base,
    serve_knowledge_base,
    versions_of,
)
from rayner.serving.model_schemas import ModelOut, ModelsReply
from rayner.serving.schemas import Versions
from rayner.serving.served_pipelines import (
    Load,
    ServedModel,
    ServedPipeline,
    of_one_version,
    serve_pipeline,
    served_model,
)
from rayner.serving.served_stages import AskedStage
from rayner.tasks.checkpoint import Checkpoint, load_checkpoint, read_recipe, version_of
from rayner.tasks.encoder_task import default_device
from rayner.tasks.predict import predict
from rayner.tasks.registry import task_of
from rayner.tasks.stages import PipelineSettings, checkpoint_in, read_pipeline, suffix
from rayner.tasks.standardizer.stage import Entities

log = logging.getLogger(__name__)
_NOTHING = ModelOut(stages=[], recognizer=None, typer=None, linked=[])


@dataclass(frozen=True, eq=False)
class Models:
    """All that answers. A request takes it once and keeps it to its end.

    Args:
        checkpoint: that of requests that name no model, if it has no name.
        named: further ones.
        knowledge_bases: those of the settings, and those that pipelines link to.
    """

    checkpoint: ServedModel | None
    named: Mapping[str, ServedModel]
    knowledge_bases: Mapping[str, ServedKnowledgeBase]

    @property
    def unnamed(self) -> ServedModel | None:
        """That of requests that name none: the checkpoint, or the only one."""
        if self.checkpoint is None and len(self.named) == 1:
            return next(iter(self.named.values()))
        return self.checkpoint

    @property
    def pipelines(self) -> Sequence[ServedPipeline]:
        """Those of all models."""
        return [model.pipeline for model in self._by_name().values()]

    def asked(self, name: str | None, part: Literal["recognizer", "typer"]) -> tuple[ServedModel, AskedStage]:
        """The model that a request means, and the stage of it that is asked.

        Raises:
            InputError: there is none of this name, it must be named, or it has no such stage.
        """
        able = [one for one, model in self.named.items() if getattr(model.pipeline, part)]
        if name is not None and name not in self.named and self.pipelines:
            others = ", ".join(able or self.named)
            hint = f"one of {others}" if self.named else "leave it out: none has a name here"
            raise InputError("model", f"there is no {name!r}", hint)
        hints = [f"one of {', '.join(able)}"] if able else []
        model = self.unnamed if name is None else self.named.get(name)
        if model is None and able:
            raise InputError("model", "must be named", *hints)
        stage = getattr(model.pipeline, part) if model else None
        if model is not None and stage is not None:
            return model, stage
        if self.checkpoint and getattr(self.checkpoint.pipeline, part):
            hints.append("leave it out")
        if hints:
            what = (
                f"{name!r} has no {part}" if name is not None else f"the service's checkpoint has no {part}"
            )
            raise InputError("model", what, " or ".join(hints))
        hint = "serve a typer's checkpoint, or a pipeline file with a stage of types"
        if part == "recognizer":
            hint = "ask /v1/type" if self.pipelines else "ask /v1/standardize"
        raise InputError("documents", f"this service has no {part}", hint)

    def bases_of(self, model: ServedModel, name: str | None) -> tuple[str, ...]:
        """The knowledge bases that a request for a model's mentions means.

        Raises:
            InputError: as `one_base`.
        """
        return model.linked if name is None and model.linked else one_base(self.knowledge_bases, name)

    def versions(self, read: Mapping[str, str] | None = None, bases: tuple[str, ...] = ()) -> Versions:
        """Of what made a reply.

        Args:
            read: those of the stages that read texts.
            bases: the names of knowledge bases that it was linked to.
        """
        linked = {name: self.knowledge_bases[name].versions for name in bases}
        return Versions.model_validate({**(read or {}), "knowledge_bases": linked})

    def flat_versions(self) -> dict[str, str]:
        """Of everything, by a name each, for metrics."""
        found: dict[str, str] = {}
        for name, model in self._by_name().items():
            found |= {f"{stage} {name}".rstrip(): v for stage, v in model.pipeline.versions().items()}
        for name, served in self.knowledge_bases.items():
            found |= {f"index {name}": served.versions.index}
            found |= {f"standardizer {name}": served.versions.standardizer}
        return found

    def describe(self, failed_change: str | None) -> ModelsReply:
        """For `GET /v1/models`."""
        unnamed = self.unnamed.describe() if self.unnamed else _NOTHING
        return ModelsReply(
            **dict(unnamed),
            models={name: model.describe() for name, model in self.named.items()},
            knowledge_bases={name: kb.about for name, kb in self.knowledge_bases.items()},
            failed_change=failed_change,
        )

    def _by_name(self) -> dict[str, ServedModel]:
        return {**({"": self.checkpoint} if self.checkpoint else {}), **self.named}


def load_models(
    settings: ModelSettings, type_sets: int, old: Models | None = None, device: str | None = None
) -> Models:
    """The models that the settings name; of `old`, what is the same is kept.

    Raises:
        InputError: what cannot be read, or does not answer what it is named for; a type to link that no model
            finds.
    """
    load = _remembering(old)
    loaded = [*(old.pipelines if old else ())]
    pipelines: dict[str, ServedPipeline] = {}
    for name, path in settings.checkpoints().items():
        pipelines[name] = serve_pipeline(path, settings.precision, type_sets, loaded, device, load)
        loaded.append(pipelines[name])
    check_linked_types([pipeline.settings for pipeline in pipelines.values()], settings.knowledge_bases)
    bases = _knowledge_bases(settings.knowledge_bases, settings.precision, old, device, load)
    configured = default_bases(bases)
    names: dict[int, str] = {}
    for base in (base for pipeline in pipelines.values() for base in pipeline.links):
        if id(base) not in names:
            names[id(base)] = name_of(base.settings, bases)
            bases[names[id(base)]] = base
    models = {
        name: served_model(
            name, pipeline, bases, tuple(names[id(base)] for base in pipeline.links) or configured, type_sets
        )
        for name, pipeline in pipelines.items()
    }
    return Models(models.pop("", None), models, bases)


def base_settings(
    name: str, settings: ServedBaseSettings, precision: AskedPrecision = None
) -> PipelineSettings:
    """The standardizer of a knowledge base that is named in the settings.

    Raises:
        InputError: it cannot be read, or is none.
    """
    checkpoint = checkpoint_in(settings.standardizer, "entities")
    if read_pipeline(checkpoint).stages[0].record.stage != "entities":
        hint = f"name the one that made the index of knowledge_bases.{name}"
        raise CheckpointError(settings.standardizer, "is no checkpoint of a standardizer", hint)
    options = {"index": settings.index, "types": settings.types or None}
    return read_pipeline(checkpoint, options, precision)


def check_linked_types(
    pipelines: Iterable[PipelineSettings], bases: Mapping[str, ServedBaseSettings]
) -> None:
    """Refuse types of knowledge bases that no model finds; where requests may ask for others, warn.

    Raises:
        RecipeError: such a type, its knowledge base, and the types that there are.
    """
    finding = [one for settings in pipelines for one in settings.stages if one.record.stage == "mentions"]
    # Those of a support are known once it is read, those of a recipe that lists none to its model alone.
    if not finding or any(stage.options.paths() for stage in finding):
        return
    types = [s.options.asked_types or listed_types(read_recipe(s.checkpoint)) for s in finding]
    if not all(types):
        return
    names = {given.name for own in types for given in own}
    free = any("types" in type(stage.options).model_fields for stage in finding)
    for base, given in bases.items():
        if unknown := sorted(set(given.types) - names):
            what = f"no model of the service finds {', '.join(map(repr, unknown))}"
            error = RecipeError(
                f"knowledge_bases.{base}.types", what, f"the types are {', '.join(sorted(names))}"
            )
            if not free:
                raise error
            log.warning("%s, and those that requests name", error)


def _knowledge_bases(
    settings: Mapping[str, ServedBaseSettings],
    precision: AskedPrecision,
    old: Models | None,
    device: str | None,
    load: Load,
) -> dict[str, ServedKnowledgeBase]:
    served: dict[str, ServedKnowledgeBase] = {}
    wanted = _wanted(precision, device)
    for name, given in settings.items():
        read = base_settings(name, given, precision)
        (stage,) = read.stages
        before = old.knowledge_bases.get(name) if old else None
        if before is not None:
            computed = before.loaded.precision if before.loaded else None
            same = (before.settings, before.versions) == (stage, versions_of(stage, computed))
            if same and wanted in ("auto", computed):
                served[name] = before
                continue
        served[name] = of_one_version(read, partial(_knowledge_base, read, device, load))
    return served


def _knowledge_base(settings: PipelineSettings, device: str | None, load: Load) -> ServedKnowledgeBase:
    pipeline = settings.pipeline(device, load)
    (stage,), (loaded,) = settings.stages, pipeline.checkpoints
    as_stage = cast(Entities, task_of(loaded.recipe).as_stage(pipeline.predictor, stage.options))
    served = serve_knowledge_base(stage, loaded, as_stage)
    list(predict(pipeline.predictor, ["The first name takes longer than any other."]))
    return served


def _wanted(precision: AskedPrecision, device: str | None) -> AskedPrecision:
    return precision or default_precision(device or default_device())


def _remembering(old: Models | None) -> Load:
    """Loads what is neither loaded yet nor answers already: models are shared, and kept over a swap."""
    known: dict[tuple[Path, str], Checkpoint] = {}
    if old is not None:
        stages = [stage for pipeline in old.pipelines for stage in pipeline.stages]
        known = {(stage.settings.checkpoint, stage.version): stage.loaded for stage in stages}
        for base in old.knowledge_bases.values():
            if base.loaded is not None:
                known[base.settings.checkpoint, base.versions.standardizer] = base.loaded

    def load(folder: Path, device: str | None, precision: AskedPrecision) -> Checkpoint:
        wanted = _wanted(precision, device)
        version = version_of(folder)
        names = ("float32", "bfloat16", "float16") if wanted == "auto" else (wanted,)
        for name in names:
            if (found := known.get((folder, version + suffix(name)))) is not None:
                return found
        found = load_checkpoint(folder, device, wanted)
        known[folder, version + suffix(found.precision)] = found
        return found

    return load
