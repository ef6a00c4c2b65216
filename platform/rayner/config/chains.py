"""The recipe of the pre-training on coreference chains (papers/003)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Dropout, Fraction, Rate, Settings, TrainingSettings
from rayner.config.documents import CorpusSettings, WindowSettings


class MentionVectorSettings(Settings):
    """A mention's vector: the mean of the last hidden states of some of its sub-words."""

    tokens: Literal["head", "span"] = "head"
    """Those of its head word, or of its whole span."""
    dropout: Dropout = 0.1
    """Within the encoder."""


class MaskingSettings(Settings):
    """What is hidden from the encoder (papers/003, section 3.2 and table 5)."""

    mentions: Literal["none", "head", "span"] = "head"
    """What of a chosen mention is masked: nothing, all sub-words of its head word, or of its span."""
    mention_rate: Fraction = 0.15
    """The fraction of mentions that are chosen."""
    token_rate: Fraction = 0.15
    """The fraction of sub-words that masked language modelling is to predict (Devlin et al. 2019)."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        return {"mention_rate": "masking.mentions is none"} if self.mentions == "none" else {}


class ChainLossSettings(Settings):
    """InfoNCE between mentions (papers/003, equation 2) and masked language modelling."""

    temperature: Rate = 0.05
    """Cosines are divided by it."""
    negatives: Literal["other_stories", "same_story", "both"] = "other_stories"
    """Mentions of other stories, of other chains of the same story, or both."""
    contrast_weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the contrast of mentions."""
    mlm_weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of masked language modelling."""

    @model_validator(mode="after")
    def _something_is_learned(self) -> ChainLossSettings:
        if not self.contrast_weight and not self.mlm_weight:
            raise ValueError("contrast_weight and mlm_weight are both 0: nothing is learned")
        return self


class StoryTraining(TrainingSettings):
    """Optimization over stories, beside what every training has."""

    tokens_per_step: PositiveInt = 8192
    """Sub-words a step, of all workers together. A step holds two stories at least, in stretches where one
    is longer than a step."""
    normalization: Literal["step"] = "step"
    """Sums of losses are divided by what the step has, over all workers."""
    epochs: PositiveInt = 5
    """Passes over the training data."""
    learning_rate: Rate = 5e-5
    """The highest learning rate of the encoder."""


class ChainsRecipe(BaseRecipe):
    """papers/003: mentions of a chain lie close together, those of other stories far away."""

    task: Literal["chains"]
    corpus: CorpusSettings
    windows: WindowSettings = WindowSettings()
    model: MentionVectorSettings = MentionVectorSettings()
    masking: MaskingSettings = MaskingSettings()
    loss: ChainLossSettings = ChainLossSettings()
    training: StoryTraining = StoryTraining()

    @model_validator(mode="after")
    def _something_is_learned(self) -> ChainsRecipe:
        if not self.loss.contrast_weight and not self.masking.token_rate:
            raise ValueError("loss.contrast_weight and masking.token_rate are both 0: nothing is learned")
        return self

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        no_mlm = {"masking.token_rate": "loss.mlm_weight is 0"}
        why = "loss.contrast_weight is 0"
        no_contrast = {"loss.temperature": why, "loss.negatives": why}
        no_tokens = {"loss.mlm_weight": "masking.token_rate is 0"}
        return {
            **({} if self.masking.token_rate else no_tokens),
            **({} if self.loss.mlm_weight else no_mlm),
            **({} if self.loss.contrast_weight else no_contrast),
        }
