"""The recipe of the entity standardizer (papers/002)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Dropout, Fraction, Rate, Settings, TrainingSettings
from rayner.config.index import IndexSettings

NilShare = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""The share of mentions without an entity."""


class ColumnSettings(Settings):
    """The column of each field in a table of entities; null is found by its name."""

    entity_id: str | None = None
    """The column of the ids."""
    name: str | None = None
    """The column of the names."""
    aliases: str | None = None
    """The column of the aliases, separated by `|`."""
    type: str | None = None
    """The column of the types."""
    description: str | None = None
    """The column of the descriptions."""


class KnowledgeBaseSettings(Settings):
    """The files that together are the knowledge base; `$NAME` is an environment variable."""

    paths: Annotated[tuple[str, ...], Field(min_length=1)]
    """The files that together are the knowledge base; `$NAME` is replaced by the environment variable."""
    format: str = "auto"
    """Their format; `auto` detects it."""
    columns: ColumnSettings = ColumnSettings()
    """Which column is which field, in a table."""
    max_aliases: PositiveInt | None = None
    """Refuses a knowledge base in which an entity has more aliases. Null: no limit."""


class MentionSettings(Settings):
    """Files of mentions with the ids of their entities; `$NAME` is an environment variable."""

    train: tuple[str, ...] = ()
    """Files of mentions, or corpora whose mentions have ids."""
    dev: tuple[str, ...] = ()
    """Files of the development part."""
    dev_fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    """Without `dev`: the fraction of the distinct strings of `train` that is held out, none of them a name or
    an alias of the knowledge base, ignoring case."""
    negatives: tuple[str, ...] = ()
    """Files of mentions of other domains: their right answer is NIL, whatever ids they have. Strings that
    `train` or `dev` gives an entity are left out."""
    format: str = "auto"
    """The format of the files; `auto` detects it."""
    types: tuple[str, ...] = ()
    """Of a corpus, the types whose mentions are taken; empty is all."""
    abbreviations: bool = False
    """Whether a mention of a document has the long form in place of a short form that the document explains,
    in corpora and in answers: `AT` is looked up as `ataxia telangiectasia`."""
    composites: bool = False
    """Whether a mention of several entities may be split, and answered part by part: `breast and ovarian
    cancer` is `breast cancer` and `ovarian cancer` where both are found better than the whole."""
    are_aliases: bool = True
    """Whether the strings of `train` are beside the names in the index that dev is scored against."""

    @model_validator(mode="after")
    def _one_dev(self) -> MentionSettings:
        if self.dev and self.dev_fraction:
            raise ValueError("has both dev and dev_fraction: drop one")
        if self.dev_fraction and not self.train:
            raise ValueError("has dev_fraction without train, of which it is a fraction")
        return self


class NameEncoderSettings(Settings):
    """From the sub-words of a name to one vector."""

    pooling: Literal["mean", "cls", "max"] = "mean"
    """The mean of the sub-words, their first ([CLS]), or their maximum."""
    projection_size: PositiveInt | None = None
    """Width of a projection. Null leaves the encoder's own width."""
    normalize: bool = True
    """Whether vectors have length 1."""
    dropout: Dropout = 0.1
    """Within the encoder."""


class GroupSettings(Settings):
    """Groups of names of an entity (papers/002, section 3.3.3)."""

    group_size: Annotated[int, Field(ge=2)] = 10
    """Names in a group."""
    groups_per_step: Annotated[int, Field(ge=2)] = 16
    """Contrastive groups in a step. A contrastive group is names of one entity, which learn to lie close
    together and away from the others."""
    anchored: bool = True
    """Whether each group holds the entity's own name."""
    neighbours: Annotated[int, Field(ge=0)] = 0
    """A step holds groups of entities that the model takes for each other: so many of those whose names were
    nearest to an entity's when the epoch began are asked to join it. 0: none."""


class MiningSettings(Settings):
    """The objective (papers/002, section 3.3)."""

    mining: Literal[
        "batch_all", "batch_hard", "hybrid", "infonce", "multi_similarity", "marginal_likelihood"
    ] = "batch_all"
    """Which triplets count; `hybrid` is batch_all for the first half of the epochs, whose evaluations
    `training.patience` does not count, then batch_hard. `infonce` takes cosines over the `temperature`,
    whatever the distance; so does `multi_similarity` (Wang et al. 2019), whose `margin` chooses the pairs,
    and `marginal_likelihood` (Sung et al. 2020), which needs `groups.neighbours`: of the names in a step, the
    nearest `candidates` count."""
    distance: Literal["cosine", "euclidean", "squared_euclidean"] = "cosine"
    """What is made small between names of an entity."""
    margin: Rate = 0.2
    """Of the triplets, in the unit of the distance."""
    temperature: Rate = 0.05
    """Of `infonce` and `marginal_likelihood`."""
    candidates: Annotated[int, Field(ge=2)] = 20
    """Of `marginal_likelihood`: names beside which those of the entity are to be the more probable."""
    base: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Of `multi_similarity`: the cosine around which pairs are weighed."""
    positive_scale: Rate = 2.0
    """Of `multi_similarity`: the weight of positives."""
    negative_scale: Rate = 50.0
    """Of `multi_similarity`: the weight of negatives."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        read: dict[str, tuple[str, ...]] = {
            "margin": ("batch_all", "batch_hard", "hybrid", "multi_similarity"),
            "distance": ("batch_all", "batch_hard", "hybrid"),
            "temperature": ("infonce", "marginal_likelihood"),
            "candidates": ("marginal_likelihood",),
            **dict.fromkeys(("base", "positive_scale", "negative_scale"), ("multi_similarity",)),
        }
        return {key: f"loss.mining is {self.mining}" for key, of in read.items() if self.mining not in of}

    @property
    def learned_distance(self) -> Literal["cosine", "euclidean", "squared_euclidean"]:
        """What the training makes small between the names of an entity, and an index should measure."""
        has_cosines = self.mining in ("infonce", "multi_similarity", "marginal_likelihood")
        return "cosine" if has_cosines else self.distance


class VariantSettings(Settings):
    """How often a name but the entity's own is written otherwise, by kind; at most one kind at a time."""

    misspelling: Fraction = 0.1
    """One letter left out, doubled, exchanged for the next, or replaced by a neighbour on the keyboard."""
    acronym: Fraction = 0.05
    """The initials of two to six words."""
    reordering: Fraction = 0.05
    """Its words in another order."""
    punctuation: Fraction = 0.05
    """Another separator between two words, marks left out, or other case."""
    prefix: Fraction = 0.05
    """A word of `prefixes` left out or put there."""
    prefixes: tuple[str, ...] = ()
    """Words that are left out at the start of a name or put there, where the entity has such a name (vendors:
    Microsoft, IBM)."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        return {} if self.prefixes else {"prefix": "augmentation.prefixes has no words"}

    @model_validator(mode="after")
    def _at_most_always(self) -> VariantSettings:
        # Rates such as 0.8, 0.1, 0.1 may sum to a little more than 1.
        if self.total > 1 + 1e-9:
            raise ValueError(f"the rates sum to {self.total:.2f}, more than 1")
        return self

    @property
    def total(self) -> float:
        """How often a name is written otherwise at all."""
        return self.misspelling + self.acronym + self.reordering + self.punctuation + self.prefix


class ContrastiveTraining(TrainingSettings):
    """Optimization over groups, beside what every training has."""

    normalization: Literal["step"] = "step"
    """Sums of losses are divided by what the step has, over all workers."""
    epochs: PositiveInt = 4
    """Passes over the training data."""
    learning_rate: Rate = 1e-4
    """The highest learning rate of the encoder."""


class StandardizerRecipe(BaseRecipe):
    """papers/002: a mention and the names of its entity lie close together. Published are other settings than
    the defaults: `model.pooling` cls and `model.normalize` false, `loss.mining` hybrid, `loss.distance`
    euclidean and `loss.margin` 2, 200 epochs at a learning rate of 1e-5, and no augmentation; candidates are
    found by vectors alone, here by n-grams too."""

    task: Literal["standardizer"]
    knowledge_base: KnowledgeBaseSettings
    mentions: MentionSettings = MentionSettings()
    aliases: bool = True
    """Whether it learns from the aliases of the knowledge base, beside names and mentions."""
    nil_share: NilShare = 0.1
    """How many of the mentions to come have no entity, for the probabilities of answers and the operating
    points; another share may be asked of the checkpoint."""
    model: NameEncoderSettings = NameEncoderSettings()
    groups: GroupSettings = GroupSettings()
    loss: MiningSettings = MiningSettings()
    augmentation: VariantSettings = VariantSettings()
    index: IndexSettings = IndexSettings()
    training: ContrastiveTraining = ContrastiveTraining()

    @model_validator(mode="after")
    def _candidates_are_near(self) -> StandardizerRecipe:
        if self.loss.mining == "marginal_likelihood" and not self.groups.neighbours:
            raise ValueError("loss.mining marginal_likelihood needs groups.neighbours, its candidates")
        return self
