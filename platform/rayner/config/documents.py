"""What the recipes of all tasks over annotated documents have."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Fraction, Settings, TrainingSettings

ContextMethod = Literal["before", "after", "surrounding", "bm25", "same_noun", "random"]


class TypeSettings(Settings):
    """A type and the texts that may stand for it (papers/000, section 4, table 5).

    `descriptions` are annotation guidelines, one or several. A prototype is a sentence with its mention
    in double square brackets: `The [[Black Sea]] froze over.`
    """

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    descriptions: tuple[str, ...] = ()
    keyword: str | None = None
    prototypes: tuple[str, ...] = ()

    @property
    def guidelines(self) -> tuple[str, ...]:
        """All descriptions that say something; none where the type has only its name."""
        return tuple(text for text in (self.description or "", *self.descriptions) if text.strip())


class LabelSettings(Settings):
    """How a dictionary's names are found in a text (papers/000, section 3.1: exact string matching).

    `case: acronyms` ignores case except in short names all in capitals. `ambiguity` is what becomes of a name
    of two types: no label, the type that stands first in the dictionary, or both.
    """

    case: Literal["exact", "ignore", "acronyms"] = "acronyms"
    ambiguity: Literal["drop", "first", "both"] = "drop"


class CorpusSettings(Settings):
    """Files or folders of each split; `$NAME` stands for an environment variable.

    Without `dev`, `dev_fraction` of the training documents are held out, no group cut and no text in both.
    With `dictionary` the training documents have its names as mentions in place of their own; `phrases` are
    names that hold their place without being mentions (papers/000, section 3, distantly supervised setting).
    `rename` maps types of the corpus and of the dictionary to those of the recipe; several may become one.
    `annotated` says, for paths as they stand in `train` or `dev`, for which types of the recipe alone they
    were annotated; the others are annotated for all, unless their documents say otherwise.
    """

    train: Annotated[tuple[str, ...], Field(min_length=1)]
    dev: tuple[str, ...] = ()
    dev_fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    format: str = "auto"
    dictionary: str | None = None
    phrases: str | None = None
    rename: dict[str, str] = Field(default_factory=dict)
    labels: LabelSettings = LabelSettings()
    annotated: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _annotated_paths_are_read(self) -> CorpusSettings:
        if others := sorted(set(self.annotated) - {*self.train, *self.dev}):
            raise ValueError(f"annotated names {others[0]!r}, which is neither in train nor in dev")
        return self

    @model_validator(mode="after")
    def _one_dev(self) -> CorpusSettings:
        if self.dev and self.dev_fraction:
            raise ValueError("has both dev and dev_fraction: drop one")
        if self.phrases and not self.dictionary:
            raise ValueError("has phrases without a dictionary")
        return self


class WindowSettings(Settings):
    """How a text is cut: sub-words a window (special tokens included), and how many the next one shares.

    `context` is how many of them are for the contexts that a document brings, at most; 0 reads none.
    `words: corpus` takes the words that a document brings and finds them in the text where it brings none;
    `words: text` always finds them in the text.
    """

    length: Annotated[int, Field(ge=8)] = 128
    overlap: Annotated[int, Field(ge=0)] = 32
    context: Annotated[int, Field(ge=0)] = 0
    words: Literal["corpus", "text"] = "corpus"

    @model_validator(mode="after")
    def _advances(self) -> WindowSettings:
        own = self.length - 2 - self.context
        if self.overlap > own // 2:
            beside = f" beside a context of {self.context}" if self.context else ""
            raise ValueError(
                f"overlap {self.overlap} must be at most half of the window{beside}, {max(0, own // 2)}"
            )
        return self


class ContextSettings(Settings):
    """Which other sentences of its document each sentence is read with (papers/001, section 4).

    `methods` each propose `candidates` sentences (by default `count`), of which `count` are taken: those that
    the checkpoint `ranker` scores highest, above `minimum`; without it, the methods' best in turn.
    `windows.context` is how many sub-words they may take.
    """

    methods: Annotated[tuple[ContextMethod, ...], Field(min_length=1)] = ("bm25",)
    count: PositiveInt = 1
    candidates: PositiveInt | None = None
    ranker: str | None = None
    minimum: Fraction = 0
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _each_method_once(self) -> ContextSettings:
        if len(set(self.methods)) < len(self.methods):
            raise ValueError("methods names one twice")
        if self.minimum and self.ranker is None:
            raise ValueError("has a minimum of scores without a ranker that gives them")
        return self


class DocumentTraining(TrainingSettings):
    """Optimization over windows of documents.

    `tokens_per_step` counts padded sub-words, of all workers together.
    """

    tokens_per_step: PositiveInt = 1024
    normalization: Literal["step", "corpus"] = "corpus"


class DocumentRecipe(BaseRecipe):
    """A run over annotated documents. With `context` they are read sentence by sentence."""

    corpus: CorpusSettings
    types: Annotated[tuple[TypeSettings, ...], Field(min_length=1)]
    windows: WindowSettings = WindowSettings()
    context: ContextSettings | None = None
    training: DocumentTraining = DocumentTraining()

    @model_validator(mode="after")
    def _distinct_types(self) -> DocumentRecipe:
        names = [t.name for t in self.types]
        if len(set(names)) < len(names):
            raise ValueError(
                f"the type {next(n for n in names if names.count(n) > 1)!r} stands twice in `types`"
            )
        return self

    @model_validator(mode="after")
    def _contexts_have_room(self) -> DocumentRecipe:
        if self.context is not None and not self.windows.context:
            raise ValueError("context needs windows.context, the sub-words that contexts may take")
        return self
