"""The recipe of the fine-grained entity typer (papers/003, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt, field_validator, model_validator

from rayner.config.base import BaseRecipe, Dropout, Settings
from rayner.config.documents import (
    ContextSettings,
    CorpusSettings,
    DocumentTraining,
    Types,
    WindowSettings,
    check_room,
)

MentionEncoding = Literal["head", "span_markers", "head_markers", "mask", "prompt", "triple"]


class TyperSettings(Settings):
    """From a mention in its context to the scores of all types."""

    mention_encoding: MentionEncoding = "head"
    """Where the vector of a mention is read (papers/003, table 4): at the first sub-word of its head word; at
    a marker before the span or before the head word; at a mask in place of the mention; at the mask of
    "The type of MENTION is [MASK]." or of "<MENTION, hasType, [MASK]>" after the text. With `head` the
    mentions of a window share it; every other encoding reads a window for each mention."""
    head: Literal["linear", "labels"] = "linear"
    """`linear` learns a vector for each type. `labels` compares projections of the mention's vector and of
    the encoded name of the type, and so scores types that it never learned, too."""
    projection_size: PositiveInt = 256
    """Width of the projections of `labels`."""
    train_encoder: bool = True
    """False keeps the encoder as it is."""
    dropout: Dropout = 0.1
    """Within the encoder, and before the head."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        return {"projection_size": "model.head is linear"} if self.head == "linear" else {}


class TypeDecoding(Settings):
    """Which types a mention has: those whose probability is above a threshold."""

    threshold: Literal["fixed", "tuned", "per_type"] = "fixed"
    """`fixed` at `value`; `tuned`, the one for all types that is best on dev; `per_type`, the best of each
    type on dev."""
    value: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The threshold `fixed`. Of the others: the one that wins between equals, and that of a type that dev
    lacks."""
    always_best: bool = True
    """Also take the most probable type, whatever its probability."""
    hierarchy: Literal["add_parents", "drop_orphans", "none"] = "add_parents"
    """Makes `/person/artist` and `/person` consistent: by adding the types above, or by dropping what lies
    below a type that is not found."""


class TyperRecipe(BaseRecipe):
    """papers/003: fine types of mentions that are given. A mention without fine types has its own type."""

    task: Literal["typer"]
    corpus: CorpusSettings
    types: Types = ()
    """The types. Empty or `auto`: the lines of `type_list`, or else those of the training corpus."""
    type_list: str | None = None
    """A file with a type a line."""
    min_count: PositiveInt = 1
    """Without a list: the mentions of the training corpus that a type must have."""
    windows: WindowSettings = WindowSettings()
    context: ContextSettings | None = None
    """With it, mentions are read in their sentence and other sentences of the document. Null: in running
    text."""
    model: TyperSettings = TyperSettings()
    decoding: TypeDecoding = TypeDecoding()
    training: DocumentTraining = DocumentTraining()

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        listed = self.types or self.type_list is not None
        found = {"min_count": "the types are listed"} if listed else {}
        if not self.model.train_encoder:
            of_encoder = ("learning_rate", "layer_decay", "gradient_checkpointing", "train_word_embeddings")
            why = "model.train_encoder is false"
            found |= dict.fromkeys((f"training.{name}" for name in of_encoder), why)
        return found

    @field_validator("types", mode="before")
    @classmethod
    def _auto(cls, value: Any) -> Any:
        return () if value == "auto" else value

    @model_validator(mode="after")
    def _one_source_of_types(self) -> TyperRecipe:
        if self.types and self.type_list is not None:
            raise ValueError("has both types and type_list: drop one")
        return self

    @model_validator(mode="after")
    def _contexts_have_room(self) -> TyperRecipe:
        check_room(self.context, self.windows)
        return self

    @model_validator(mode="after")
    def _thresholds_have_a_dev(self) -> TyperRecipe:
        if self.decoding.threshold != "fixed" and not (self.corpus.dev or self.corpus.dev_fraction):
            raise ValueError(
                f"decoding.threshold {self.decoding.threshold} needs corpus.dev or corpus.dev_fraction"
            )
        return self
