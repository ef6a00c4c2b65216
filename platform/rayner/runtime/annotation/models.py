"""Checkpoints on disk as what annotates: a recognizer or a tagger, alone or with what links its mentions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rayner.errors import CheckpointError
from rayner.retrieval.index_folder import version_of_index
from rayner.runtime.annotation.block import DocumentPredictor
from rayner.tasks.base import DEFAULTS, Options
from rayner.tasks.checkpoint import check_files, load_checkpoint, read_recipe, version_of
from rayner.tasks.linking import load_linker
from rayner.tasks.new_types import Threshold, new_types
from rayner.tasks.standardize import TOP_K, NilChoice


@dataclass(frozen=True, slots=True)
class Linking:
    """What says which entity a mention is.

    Args:
        standardizer: a checkpoint folder.
        index: the folder of the index that it built.
        types: those of the recognizer's types that the index has entities for; None for all.
        top_k: candidates a mention.
        operating_point: when a mention is NIL; by default `balanced` where the standardizer is calibrated.
    """

    standardizer: Path
    index: Path
    types: tuple[str, ...] | None = None
    top_k: int = TOP_K
    operating_point: NilChoice | None = None

    @property
    def choices(self) -> tuple[tuple[str, ...] | None, int, NilChoice | None]:
        """What changes answers beside the files."""
        return self.types, self.top_k, self.operating_point


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A checkpoint folder, and what links its mentions, as a `Model`."""

    checkpoint: Path
    options: Options = DEFAULTS
    linking: Linking | None = None

    @classmethod
    def of(cls, checkpoint: Path, options: Options, linking: Linking | None) -> SavedModel:
        """With absolute paths: workers have another working folder."""
        if linking:
            standardizer, index = linking.standardizer.absolute(), linking.index.absolute()
            linking = replace(linking, standardizer=standardizer, index=index)
        return cls(checkpoint.absolute(), options, linking)

    @property
    def version(self) -> str:
        """The versions of the checkpoints and of the index, joined by `+`.

        Raises:
            CheckpointError: a folder is no checkpoint, or the first one none of a model over documents.
            IndexFolderError: no index.
        """
        recipe = read_recipe(self.checkpoint)
        if not hasattr(recipe, "windows"):
            what = f"a {recipe.model_dump()['task']} does not find mentions in documents"
            raise CheckpointError(str(self.checkpoint), what, "name a recognizer or a tagger")
        if not self.linking:
            return version_of(self.checkpoint)
        index = f"index-{version_of_index(self.linking.index)}"
        return "+".join([version_of(self.checkpoint), version_of(self.linking.standardizer), index])

    @property
    def new_types(self) -> dict[str, Threshold]:
        """Those of the types asked for that the recognizer did not learn, with how their threshold is had."""
        return new_types(read_recipe(self.checkpoint), [t.name for t in self.options.types or ()])

    def check(self) -> None:
        """Find out before the work begins, and in this process, whether the files can be used.

        Raises:
            CheckpointError: a file is missing or damaged.
            InputError: types that the recognizer does not have, or an index that is damaged or another's.
        """
        if self.linking:
            self.load("cpu")
        else:
            check_files(self.checkpoint)

    def load(self, device: str | None) -> DocumentPredictor:
        """The predictor, on a device; None for a GPU where there is one."""
        if not self.linking:
            loaded = load_checkpoint(self.checkpoint, device)
            return loaded.task.predictor(loaded.model, self.options)
        linking = self.linking
        return load_linker(
            self.checkpoint,
            linking.standardizer,
            linking.index,
            linking.types,
            linking.top_k,
            linking.operating_point,
            device,
            self.options,
        ).predictor
