"""What the recipes of all tasks over annotated documents have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Fraction, Settings, TrainingSettings

ContextMethod = Literal["before", "after", "surrounding", "bm25", "same_noun", "dense", "random"]
NounTagger = Literal["auto", "spacy", "nltk", "light"]


class TypeSettings(Settings):
    """A type and the texts that describe it (papers/000, section 4, table 5)."""

    name: Annotated[str, Field(min_length=1)]
    """The label, as the corpus has it."""
    description: str | None = None
    """What the type means, as an annotator would be told."""
    descriptions: tuple[str, ...] = ()
    """Further descriptions; the vectors of several are averaged."""
    keyword: str | None = None
    """A word for the type, with `model.type_encoding: keyword`. Null: its name."""
    prototypes: tuple[str, ...] = ()
    """Sentences with their mention in double square brackets, with `model.type_encoding: prototype`: `The
    [[Black Sea]] froze over.`"""

    @property
    def guidelines(self) -> tuple[str, ...]:
        """All descriptions that say something; none where the type has only its name."""
        return tuple(text for text in (self.description or "", *self.descriptions) if text.strip())

    @property
    def is_bare(self) -> bool:
        """Whether it is a name and nothing else."""
        return not (self.guidelines or self.keyword or self.prototypes)


def described(types: Iterable[TypeSettings], learned: Iterable[TypeSettings]) -> list[TypeSettings]:
    """The types, where one that is but a name is the learned one of that name, with all that describes it."""
    known = {t.name: t for t in learned}
    return [known.get(t.name, t) if t.is_bare else t for t in types]


def first_repeated(names: Iterable[str]) -> tuple[int, int] | None:
    """The places of the first two equal names; None if all differ."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if (before := places.setdefault(name, place)) != place:
            return before, place
    return None


UNKNOWN_TYPE = "?"
"""In documents, the type of a mention whose type is not known (`rayner.data.schema.UNKNOWN`)."""


def named(name: str) -> str:
    """The name of a type; ValueError for a blank one, and for what documents have in place of a type."""
    if not name.strip():
        raise ValueError(f"{name!r} is no name of a type: write one")
    if name == UNKNOWN_TYPE:
        raise ValueError(f"{name!r} is no type: in documents it says that a type is not known; name another")
    return name


def _distinct(types: tuple[TypeSettings, ...]) -> tuple[TypeSettings, ...]:
    for one in types:
        named(one.name)
    if twice := first_repeated(t.name for t in types):
        first, second = twice
        raise ValueError(
            f"the type {types[second].name!r} occurs twice, as entries {first + 1} and {second + 1}"
        )
    return types


def _by_name(types: Any) -> Any:
    if isinstance(types, TypeSettings):
        raise ValueError("is one type: write it in a list")
    no_list = isinstance(types, str | bytes | Mapping) or getattr(types, "ndim", 1) == 0
    if no_list or not isinstance(types, Iterable):
        return types
    return tuple({"name": one} if isinstance(one, str) else one for one in types)


Types = Annotated[tuple[TypeSettings, ...], BeforeValidator(_by_name), AfterValidator(_distinct)]
"""Types, each with its own name, which alone may be written for a type that is no more than that."""


class LabelSettings(Settings):
    """How a dictionary's names are found in a text (papers/000, section 3: exact string matching)."""

    case: Literal["exact", "ignore", "acronyms"] = "acronyms"
    """Whether case matters; `acronyms` ignores it except in short names all in capitals."""
    ambiguity: Literal["drop", "first", "both"] = "drop"
    """What becomes of a name of two types: no label, the type that comes first in the dictionary, or both."""
    phrases: Literal["negative", "unknown"] = "negative"
    """Whether what is found without getting a label, as `corpus.phrases` are, is no mention, or may be one: a
    recognizer and a tagger then learn nothing from it."""


class CorpusSettings(Settings):
    """The documents of each split, and what is changed in them."""

    train: Annotated[tuple[str, ...], Field(min_length=1)]
    """Files or folders; `$NAME` is replaced by the environment variable."""
    dev: tuple[str, ...] = ()
    """Files or folders of the development part."""
    dev_fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    """Without `dev`: the fraction of the training documents that is held out, no group cut and no text in
    both."""
    format: str = "auto"
    """The format of the files; `auto` detects it."""
    dictionary: str | None = None
    """A dictionary whose names the training documents have as mentions in place of their own (papers/000,
    section 3, distantly supervised setting)."""
    phrases: str | None = None
    """A file of names that occupy their place without being mentions; goes with `dictionary`."""
    rename: dict[str, str] = Field(default_factory=dict)
    """Types of the corpus and of the dictionary, and the types of the recipe that they become; several may
    become one."""
    labels: LabelSettings = LabelSettings()
    """How the names of `dictionary` are found."""
    annotated: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """For paths as written in `train` or `dev`: the types of the recipe that they were annotated for. Others
    are annotated for all, unless their documents say otherwise."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        return {} if self.dictionary else {"labels": "corpus.dictionary is not set"}

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


LEAST_ROOM = 2
"""The sub-words in which one of a context has room: that and a separator."""


class WindowSettings(Settings):
    """How a text is cut into windows of sub-words."""

    length: Annotated[int, Field(ge=8)] = 128
    """Sub-words a window, special tokens included."""
    overlap: Annotated[int, Field(ge=0)] = 32
    """Sub-words that a window shares with the next one."""
    context: Annotated[int, Field(ge=0)] = 0
    """How many sub-words of a window are for the contexts that a document brings, at most; 0 reads none."""
    words: Literal["corpus", "text"] = "corpus"
    """`corpus` takes the words that a document brings and finds them in the text where it brings none; `text`
    always finds them in the text."""

    @model_validator(mode="after")
    def _advances(self) -> WindowSettings:
        own = self.length - 2 - self.context
        if own < 1:
            raise ValueError(f"context {self.context} leaves a window of {self.length} no room for the text")
        if self.overlap > own // 2:
            beside = f" beside a context of {self.context}" if self.context else ""
            raise ValueError(
                f"overlap {self.overlap} must be at most half of the window{beside}, {max(0, own // 2)}"
            )
        return self


def _each_once(methods: tuple[ContextMethod, ...]) -> tuple[ContextMethod, ...]:
    if len(set(methods)) < len(methods):
        raise ValueError("names one twice")
    return methods


ContextMethods = Annotated[tuple[ContextMethod, ...], Field(min_length=1), AfterValidator(_each_once)]
"""Different methods, one at least."""


class ContextChoice(Settings):
    """How the contexts of a sentence are found and chosen (papers/001, section 4)."""

    methods: ContextMethods = ("bm25",)
    """How candidates are found; each method proposes some."""
    count: PositiveInt = 1
    """Sentences that are read as contexts of one sentence."""
    candidates: PositiveInt | None = None
    """Sentences that each method proposes. Null: as many as `count`."""
    minimum: Fraction = 0
    """The score of a ranker that a context must have."""
    choice: Literal["top", "diverse"] = "top"
    """`top` takes the most relevant candidates; `diverse` takes one for each name of the sentence that
    candidates have, then those that say something else than the contexts before them. It needs more
    `candidates` than `count`."""
    diversity: Fraction = 0.5
    """With `diverse`, the weight of what is new against relevance."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Of what the methods `random` and `same_noun` draw."""
    nouns: NounTagger = "light"
    """What finds the nouns of `same_noun`: spaCy, NLTK, a light tagger without a model, or with `auto` the
    first of them that is installed."""
    lemmas: bool = False
    """Compare the base forms of nouns."""
    case: bool = True
    """Whether words that differ in case differ, for `bm25` and `same_noun`."""

    @property
    def reads_nouns(self) -> bool:
        """Whether `nouns` has any effect."""
        return "same_noun" in self.methods or self.choice == "diverse"

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        methods, nouns = set(self.methods), "same_noun" in self.methods
        why = "context.methods has no method that reads it"
        return {
            **({} if self.reads_nouns else {"nouns": why}),
            **({} if nouns else {"lemmas": why}),
            **({} if methods & {"bm25", "same_noun"} else {"case": why}),
            **({} if methods & {"random", "same_noun"} else {"seed": why}),
            **({} if self.choice == "diverse" else {"diversity": "context.choice is top"}),
        }

    @model_validator(mode="after")
    def _there_is_a_choice(self) -> Self:
        most = len(self.methods) * (self.candidates or self.count)
        if self.choice == "diverse" and most <= self.count:
            raise ValueError(
                f"has a diverse choice of {self.count} among {most} candidates; name more of these"
            )
        return self


class ContextSettings(ContextChoice):
    """Which other sentences of its document each sentence is read with (papers/001, section 4)."""

    ranker: str | None = None
    """What chooses among the candidates: a checkpoint of a ranker, or a reranker of Hugging Face (a folder,
    or an id such as `castorini/monot5-base-msmarco`). Null: the methods' best, in turn."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        candidates = len(self.methods) * (self.candidates or self.count)
        one = {"ranker": "context.candidates gives it one to choose among"}
        return {**super().without_effect(), **(one if candidates == 1 and not self.minimum else {})}

    @model_validator(mode="after")
    def _scores_are_given(self) -> ContextSettings:
        if self.minimum and self.ranker is None:
            raise ValueError("has a minimum of scores without a ranker that gives them")
        return self


class DocumentTraining(TrainingSettings):
    """Optimization over windows of documents, beside what every training has."""

    tokens_per_step: PositiveInt = 1024
    """Padded sub-words a step, of all workers together."""
    normalization: Literal["step", "corpus"] = "corpus"
    """What the sums of the loss are divided by: the counts of the step, or the mean counts of steps."""


class DocumentRecipe(BaseRecipe):
    """A run over annotated documents. With `context` they are read sentence by sentence."""

    corpus: CorpusSettings
    types: Annotated[Types, Field(min_length=1)]
    """The types to learn: a list of types, or of their names, or the name of a YAML file with the list,
    relative to the recipe."""
    windows: WindowSettings = WindowSettings()
    context: ContextSettings | None = None
    """With it, documents are read sentence by sentence, each with other sentences of its document. Null: in
    windows of running text."""
    training: DocumentTraining = DocumentTraining()

    @property
    def annotatable(self) -> tuple[str, ...]:
        """The names of the types that documents may be annotated for."""
        return tuple(one.name for one in self.types)

    @model_validator(mode="after")
    def _contexts_have_room(self) -> DocumentRecipe:
        check_room(self.context, self.windows)
        return self


def listed_types(recipe: BaseRecipe) -> Sequence[TypeSettings]:
    """The types of a recipe; empty where it lists none."""
    return getattr(recipe, "types", ())


def window_settings(recipe: BaseRecipe) -> WindowSettings | None:
    """How a recipe has texts cut into windows; None where it does not say."""
    return getattr(recipe, "windows", None)


def check_room(context: ContextSettings | None, windows: WindowSettings) -> None:
    """Raise ValueError for contexts without a place in the windows."""
    if context is not None and not windows.context:
        raise ValueError("context needs windows.context, the sub-words that contexts may take")
    if context is not None and windows.context < LEAST_ROOM:
        raise ValueError(
            f"windows.context {windows.context} has room for no context beside a separator: "
            f"make it {LEAST_ROOM} or more"
        )
