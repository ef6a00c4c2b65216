"""The recipe of the context ranker (papers/001)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Dropout, Settings, TrainingSettings


class PairSettings(Settings):
    """JSONL files of pairs `{"sentence", "context", "relevant"}`; `$NAME` is an environment variable."""

    train: Annotated[tuple[str, ...], Field(min_length=1)]
    """Files of pairs."""
    dev: tuple[str, ...] = ()
    """Files of pairs of the development part."""
    dev_fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    """Without `dev`: the fraction of `train` that is held out; the pairs of a `group` (a book), or without
    one those of a sentence, stay together."""

    @model_validator(mode="after")
    def _one_dev(self) -> PairSettings:
        if self.dev and self.dev_fraction:
            raise ValueError("has both dev and dev_fraction: drop one")
        return self


class CrossEncoderSettings(Settings):
    """A regression head on the encoder of `[CLS] sentence [SEP] context [SEP]`."""

    length: Annotated[int, Field(ge=8)] = 256
    """Sub-words of a pair, special tokens included: of a longer pair, the longer side is cut."""
    pooling: Literal["cls", "mean", "max"] = "cls"
    """The vector of a pair: that of [CLS], or the mean or maximum of all."""
    dropout: Dropout = 0.1
    """Within the encoder, and before the head."""


class RelevanceSettings(Settings):
    """The objective."""

    objective: Literal["binary_cross_entropy", "mean_squared_error"] = "binary_cross_entropy"
    """The released code of papers/001 has two classes and their cross-entropy, which is the binary one of the
    difference of their logits; `mean_squared_error` is a regression on 0 and 1."""


class PairTraining(TrainingSettings):
    """Optimization over pairs, beside what every training has."""

    tokens_per_step: PositiveInt = 1024
    """Padded sub-words a step, of all workers together."""
    epochs: PositiveInt = 3
    """Passes over the training data."""


class RankerRecipe(BaseRecipe):
    """papers/001: how much a context helps to read a sentence, from 0 to 1. Published are 3 epochs, as by
    default, at a learning rate of 2e-5."""

    task: Literal["ranker"]
    pairs: PairSettings
    model: CrossEncoderSettings = CrossEncoderSettings()
    loss: RelevanceSettings = RelevanceSettings()
    training: PairTraining = PairTraining()
