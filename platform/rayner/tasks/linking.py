"""Checkpoints and indexes, ready to link."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rayner.data.mention_strings import MentionString
from rayner.data.schema import Document
from rayner.errors import CheckpointError
from rayner.retrieval.index_folder import open_index
from rayner.tasks.answers import Answer
from rayner.tasks.base import DEFAULTS, Options
from rayner.tasks.checkpoint import Loaded, load_checkpoint
from rayner.tasks.index_origin import check_origin, origin_of
from rayner.tasks.linker import Linker
from rayner.tasks.new_types import Threshold
from rayner.tasks.predict import TOKENS_PER_BATCH, checked, predict
from rayner.tasks.standardize import TOKENS_PER_SEARCH, TOP_K, NilChoice, Standardizer
from rayner.tasks.standardizer import StandardizerTask


@dataclass(frozen=True, slots=True)
class LoadedStandardizer:
    """A standardizer and an index."""

    predictor: Standardizer

    def predict(
        self, mentions: Iterable[str | MentionString], tokens_per_batch: int = TOKENS_PER_SEARCH
    ) -> list[Answer]:
        """The answer to each mention, in order."""
        return list(predict(self.predictor, checked(mentions), tokens_per_batch))


@dataclass(frozen=True, slots=True)
class LoadedLinker:
    """A recognizer and a standardizer with its index; `new_types` are as of the recognizer's checkpoint."""

    predictor: Linker
    new_types: Mapping[str, Threshold] = field(default_factory=dict[str, Threshold])

    def predict(
        self, texts: Iterable[str | Document], tokens_per_batch: int = TOKENS_PER_BATCH
    ) -> list[Document]:
        """The documents with mentions, in order, each with its entity (None is NIL), candidates, margin and
        probability.
        """
        places = enumerate(checked(texts))
        given = (Document(str(i), item) if isinstance(item, str) else item for i, item in places)
        return list(predict(self.predictor, given, tokens_per_batch))


def load_standardizer(
    checkpoint: str | Path,
    index: str | Path,
    top_k: int = TOP_K,
    operating_point: NilChoice | None = None,
    device: str | None = None,
) -> LoadedStandardizer:
    """A standardizer's checkpoint and an index that it built.

    Args:
        top_k: candidates an answer.
        operating_point: when an answer is NIL; by default `balanced` where the checkpoint has a calibration.

    Raises:
        CheckpointError: the folder is no checkpoint of a standardizer, or is damaged.
        InputError: the index is another encoder's or damaged, or an operating point without a calibration.
    """
    loaded = load_checkpoint(Path(checkpoint), device)
    return LoadedStandardizer(standardizer_of(loaded, Path(checkpoint), Path(index), top_k, operating_point))


def load_linker(
    recognizer: str | Path,
    standardizer: str | Path,
    index: str | Path,
    types: Collection[str] | None = None,
    top_k: int = TOP_K,
    operating_point: NilChoice | None = None,
    device: str | None = None,
    options: Options = DEFAULTS,
) -> LoadedLinker:
    """A recognizer's checkpoint, and a standardizer's with its index, that together link texts.

    Args:
        types: those of the recognizer's types that the index has entities for; None for all.
        top_k: candidates a mention.
        operating_point: as of `load_standardizer`.
        options: of the recognizer: other types, thresholds or nesting than its recipe's.

    Raises:
        CheckpointError: a folder is no checkpoint of its kind, or is damaged.
        InputError: as `load_standardizer`, or types that the recognizer does not have.
    """
    loaded = load_checkpoint(Path(recognizer), device)
    names = [settings.name for settings in options.types or getattr(loaded.recipe, "types", ())]
    if not names:
        what = "finds no mentions in texts"
        raise CheckpointError(str(recognizer), what, "name the checkpoint of a recognizer or a tagger")
    if unknown := sorted(set(types or ()) - set(names)):
        what = f"has no type {', '.join(map(repr, unknown))}"
        raise CheckpointError(str(recognizer), what, f"its types are {', '.join(names)}")
    linked = load_standardizer(standardizer, index, top_k, operating_point, device)
    linker = Linker(loaded.task.predictor(loaded.model, options), linked.predictor, types)
    return LoadedLinker(linker, loaded.new_types(options))


def standardizer_of(
    loaded: Loaded, checkpoint: Path, index: Path, top_k: int, operating_point: NilChoice | None
) -> Standardizer:
    """The predictor of a loaded checkpoint over an index."""
    task, model = loaded.task, loaded.model
    if not isinstance(task, StandardizerTask):
        what, cure = "is no checkpoint of a standardizer", "train one with a recipe of `task: standardizer`"
        raise CheckpointError(str(checkpoint), what, cure)
    fitted = task.fitted
    opened = open_index(index)
    check_origin(opened.origin, origin_of(checkpoint, loaded.recipe), index)
    return Standardizer(
        opened, lambda texts: task.encode(model, texts), fitted.weight, fitted.nil, top_k, operating_point
    )
