"""The recipe of the entity standardizer (papers/002)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Fraction, Rate, Settings, TrainingSettings
from rayner.config.index import IndexSettings


class ColumnSettings(Settings):
    """The column of each field in a table of entities; None is found by its name."""

    entity_id: str | None = None
    name: str | None = None
    aliases: str | None = None
    type: str | None = None
    description: str | None = None


class KnowledgeBaseSettings(Settings):
    """The files that together are the knowledge base; `$NAME` stands for an environment variable."""

    paths: Annotated[tuple[str, ...], Field(min_length=1)]
    format: str = "auto"
    columns: ColumnSettings = ColumnSettings()
    max_aliases: PositiveInt | None = None


class MentionSettings(Settings):
    """Files of mentions with the ids of their entities; `$NAME` stands for an environment variable.

    Without `dev`, `dev_fraction` of the distinct strings of `train` are held out, none of them a name or an
    alias of the knowledge base, ignoring case. `negatives` are mentions of other domains: their right answer
    is NIL, whatever ids they have. Of a corpus of documents, the mentions of `types` are taken; empty is all.
    With `are_aliases` the strings of `train` stand beside the names in the index that dev is scored against.
    """

    train: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    dev_fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    negatives: tuple[str, ...] = ()
    format: str = "auto"
    types: tuple[str, ...] = ()
    are_aliases: bool = True

    @model_validator(mode="after")
    def _one_dev(self) -> MentionSettings:
        if self.dev and self.dev_fraction:
            raise ValueError("has both dev and dev_fraction: drop one")
        if self.dev_fraction and not self.train:
            raise ValueError("has dev_fraction without train, of which it is a fraction")
        return self


class NameEncoderSettings(Settings):
    """From the sub-words of a name to one vector. `projection_size` null leaves the encoder's own width."""

    pooling: Literal["mean", "cls", "max"] = "mean"
    projection_size: PositiveInt | None = None
    normalize: bool = True
    dropout: Fraction = 0.1


class GroupSettings(Settings):
    """Groups of names of an entity (papers/002, section 3.2); with `anchored` each holds the entity's own."""

    group_size: Annotated[int, Field(ge=2)] = 10
    groups_per_step: Annotated[int, Field(ge=2)] = 16
    anchored: bool = True


class MiningSettings(Settings):
    """The objective (papers/002, section 3.3).

    `hybrid` is batch_all for the first half of the epochs, then batch_hard. `margin` is in the unit of the
    distance. `infonce` takes cosines over the `temperature`, whatever the distance.
    """

    mining: Literal["batch_all", "batch_hard", "hybrid", "infonce"] = "batch_all"
    distance: Literal["cosine", "euclidean", "squared_euclidean"] = "cosine"
    margin: Rate = 0.2
    temperature: Rate = 0.05

    @property
    def learned_distance(self) -> Literal["cosine", "euclidean", "squared_euclidean"]:
        """What the training makes small between the names of an entity, and an index should measure."""
        return "cosine" if self.mining == "infonce" else self.distance


class VariantSettings(Settings):
    """How often a name but the entity's own is written otherwise, by kind; at most one kind at a time.

    `prefixes` are words that are left out at the start of a name or put there, where the entity has such a
    name (vendors: Microsoft, IBM).
    """

    misspelling: Fraction = 0.1
    acronym: Fraction = 0.05
    reordering: Fraction = 0.05
    punctuation: Fraction = 0.05
    prefix: Fraction = 0.05
    prefixes: tuple[str, ...] = ()

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
    """Optimization over groups. Sums are divided by what the step has, over all workers."""

    normalization: Literal["step"] = "step"
    epochs: PositiveInt = 4
    learning_rate: Rate = 1e-4


class StandardizerRecipe(BaseRecipe):
    """papers/002: a mention and the names of its entity lie close together.

    `aliases`: whether it learns from the aliases of the knowledge base, beside names and mentions.
    """

    task: Literal["standardizer"]
    knowledge_base: KnowledgeBaseSettings
    mentions: MentionSettings = MentionSettings()
    aliases: bool = True
    model: NameEncoderSettings = NameEncoderSettings()
    groups: GroupSettings = GroupSettings()
    loss: MiningSettings = MiningSettings()
    augmentation: VariantSettings = VariantSettings()
    index: IndexSettings = IndexSettings()
    training: ContrastiveTraining = ContrastiveTraining()
