"""What tasks share that learn from documents: which ones, and how they reach the workers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import Literal, TypeVar

from torch import nn

from rayner.config import BaseRecipe
from rayner.config.documents import CorpusSettings
from rayner.counted import counted
from rayner.data.corpus_check import Finding
from rayner.data.schema import Document
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError, RecipeError
from rayner.files.uris import expanded, with_uris
from rayner.models.encoder import Tokenizer
from rayner.tasks.base import ParallelMap, Unit
from rayner.tasks.contexts.in_recipes import SentenceContexts, contexts_of
from rayner.tasks.document_windows import TextWindow, text_windows
from rayner.tasks.splits import Change, FoundDocuments, Split, change_of, document_units, read_documents
from rayner.tasks.unit_task import UnitTask

R = TypeVar("R", bound=BaseRecipe)

log = logging.getLogger(__name__)


class CorpusTask(UnitTask[R]):
    """A task whose recipe has a `corpus`."""

    keeps_stories_apart = False
    """Whether nothing is learned of the stories that have a document in dev."""
    calibration_fraction = 0.0
    """How many of the training documents are set apart for `calibrate`."""

    def __init__(self, recipe: R, tokenizer: Tokenizer | None = None) -> None:
        super().__init__(recipe, tokenizer)
        self._changes: dict[str, Change] = {}

    def units(
        self, split: Literal["train", "dev"], mapper: ParallelMap = map, cache: Path | None = None
    ) -> Sequence[Unit]:
        """Files, small ones together and large ones in parts, with the documents of them that are in it.

        Raises:
            RecipeError: a path that does not exist, or as `check_corpus`.
            CorpusError: a corpus without documents, or, to learn from, without what the task needs.
            FileError: a file that cannot be read.
        """
        if split == "train":
            self.check_corpus()
        found = self._found(split, mapper, cache)
        if split == "train":
            self.require(found)
            return found.units
        if found.units and (lacking := self.lacking(found)):
            warn_once(log, _scoring_alike(lacking))
        if not self.keeps_stories_apart:
            _tell_of_shared(self._corpus, found.units)
        return found.units

    def calibration_units(self, mapper: ParallelMap = map, cache: Path | None = None) -> Sequence[Unit]:
        """Those training documents that are set apart.

        Raises:
            InputError: as `units`.
        """
        return self._found("calibration", mapper, cache).units

    def read(self, unit: Unit) -> Iterable[Document]:
        """The documents of a unit.

        Raises:
            FileError: a file that cannot be read, or was changed since the units were found.
        """
        return read_documents(unit, self._change(unit.source.split))

    def findings(self, mapper: ParallelMap = map) -> Iterable[Finding]:
        """What training would refuse: stories of dev are left out, by the recipe's own split too."""
        try:
            self.check_corpus()
        except RecipeError as error:
            kind = "type without description" if error.where.startswith("types: ") else "unknown type"
            yield Finding(kind, "error", error.where, error.what, error.hint)
            return
        if self.keeps_stories_apart:
            try:
                self.units("train", mapper)
            except CorpusError as error:
                yield Finding("nothing to learn", "error", error.where, error.what, error.hint, split="train")

    def split_findings(
        self, counts: Mapping[str, FoundDocuments], mapper: ParallelMap = map
    ) -> Iterable[Finding]:
        """What training would refuse of train, and warn of in dev, by the mentions that they have.

        Args:
            counts: what the files of `train` and `dev` hold; no units. Where the recipe itself cuts parts out
                of the training documents, these are read to see what is in each part.
        """
        if self.keeps_stories_apart or "train" not in counts:
            return  # `findings` tells of the stories.
        dev_fraction = self._corpus.dev_fraction
        cut: tuple[Split, ...] = ("train",) if self.calibration_fraction else ()
        cut = ("train", "dev") if dev_fraction else cut
        try:
            counts = {**counts, **{split: self._found(split, mapper, None) for split in cut}}
            self.require(counts["train"])
        except CorpusError as error:
            yield Finding("nothing to learn", "error", error.where, error.what, error.hint, split="train")
            return
        if "dev" in counts and (lacking := self.lacking(counts["dev"])):
            hint = "raise corpus.dev_fraction" if dev_fraction else "name other files as corpus.dev"
            yield Finding("nothing to score", "warning", "dev", _scoring_alike(lacking), hint, split="dev")

    def check_corpus(self) -> None:
        """Refuse settings of the corpus and types that do not fit the task, before anything is read.

        Raises:
            RecipeError: it names the setting.
        """

    def require(self, found: FoundDocuments) -> None:
        """Refuse documents of which nothing can be learned.

        Raises:
            CorpusError: it says what they have, and what they lack.
        """

    def lacking(self, found: FoundDocuments) -> str:
        """What documents of dev have none of, so that they score all models alike; empty where they have."""
        return ""

    @cached_property
    def contexts(self) -> SentenceContexts | None:
        """The contexts that sentences are read with; None where the recipe has none.

        Raises:
            InputError: as `contexts_of`.
        """
        folder, context = self.checkpoint or self.origin, getattr(self.recipe, "context", None)
        return contexts_of(context, self.recipe.encoder, folder, self.precision, self.device)

    @property
    def examples_ask_model(self) -> bool:
        """Where contexts are chosen by one."""
        return self.contexts is not None and self.contexts.ask_model

    @property
    def origin(self) -> Path | None:
        """The folder of the checkpoint that is learned from, with its ranker and tokenizer; None without."""
        return None

    def save(self, model: nn.Module, folder: Path) -> None:
        """What chooses contexts, too."""
        super().save(model, folder)
        if self.contexts is not None:
            self.contexts.save(folder)

    def load(self, folder: Path) -> nn.Module:
        """As `EncoderTask.load`; from then on the contexts are those of the checkpoint."""
        model = super().load(folder)
        vars(self).pop("contexts", None)
        return model

    def windows_of(self, document: Document) -> list[TextWindow]:
        """The windows of a document."""
        tokenizer = self.tokenizer
        if self.contexts is not None:
            document = self.contexts.of(document)
        windows = self.recipe.windows  # type: ignore[attr-defined]
        return text_windows(document, windows, tokenizer, tokenizer.unk_id, tokenizer.sep_id)

    def _found(self, split: Split, mapper: ParallelMap, cache: Path | None) -> FoundDocuments:
        return document_units(
            self._corpus,
            split,
            self._change(split),
            mapper,
            cache,
            self.keeps_stories_apart,
            self.calibration_fraction,
        )

    def _change(self, split: Split) -> Change:
        # Kept, with the dictionary that it has read, for the workers that the task is sent to. What is set
        # apart for a calibration was training documents.
        part: Split = "dev" if split == "dev" else "train"
        if part not in self._changes:
            self._changes[part] = change_of(self._corpus, part)
        return self._changes[part]

    @property
    def _corpus(self) -> CorpusSettings:
        return self.recipe.corpus  # type: ignore[attr-defined]


def mention_of(names: Sequence[str]) -> str:
    """What is lacking where no mention has any of these types."""
    return f"mention of {', '.join(names[:10])}"


def _scoring_alike(lacking: str) -> str:
    return f"the development part has no {lacking}: all steps score alike, and best/ is the first"


def _tell_of_shared(corpus: CorpusSettings, dev: Sequence[Unit]) -> None:
    """Warn of files of dev that are learned from too: by their paths alone, as no document is held here."""
    if not corpus.dev:
        return
    learned = {_place(expanded(path)) for path in corpus.train}

    @cache
    def is_below(folder: str) -> bool:
        place = _place(folder)
        return not learned.isdisjoint((place, *place.parents))

    paths = dict.fromkeys(path for unit in dev for of in unit.source.part.units for path in of.paths)
    shared = [path for path in paths if is_below(os.path.dirname(path)) or _place(path) in learned]
    if shared:
        first = with_uris(shared[0]).removeprefix(f"{Path.cwd()}/")
        what = f"corpus.dev has {counted(len(shared), 'file')} of corpus.train ({first})"
        warn_once(log, f"{what}: its scores do not show how well other texts are read; keep dev out of train")


def _place(path: str) -> PurePath:
    """Where a path leads; what was fetched from a URI is there, wherever it lies here."""
    uri = with_uris(path)
    return PurePath(uri if "://" in uri else os.path.realpath(path))
