"""The recipe of the pre-training on coreference chains (papers/003)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import BaseRecipe, Fraction, Rate, Settings, TrainingSettings
from rayner.config.documents import CorpusSettings, WindowSettings


class MentionVectorSettings(Settings):
    """A mention's vector: the mean of the last hidden states of its head's sub-words, or of its span's."""

    tokens: Literal["head", "span"] = "head"
    dropout: Fraction = 0.1


class MaskingSettings(Settings):
    """What is hidden from the encoder (papers/003, section 3.2 and table 5).

    `mention_rate` of the mentions have all sub-words of their head, or of their whole span, masked.
    `token_rate` of all sub-words are to be predicted by masked language modelling (Devlin et al. 2019).
    """

    mentions: Literal["none", "head", "span"] = "head"
    mention_rate: Fraction = 0.15
    token_rate: Fraction = 0.15


class ChainLossSettings(Settings):
    """InfoNCE between mentions (papers/003, equation 2) and masked language modelling, and their weights.

    `negatives` are mentions of other stories, of other chains of the same story, or both.
    """

    temperature: Rate = 0.05
    negatives: Literal["other_stories", "same_story", "both"] = "other_stories"
    contrast_weight: Annotated[float, Field(ge=0)] = 1.0
    mlm_weight: Annotated[float, Field(ge=0)] = 1.0

    @model_validator(mode="after")
    def _something_is_learned(self) -> ChainLossSettings:
        if not self.contrast_weight and not self.mlm_weight:
            raise ValueError("contrast_weight and mlm_weight are both 0: nothing is learned")
        return self


class StoryTraining(TrainingSettings):
    """Optimization over whole stories.

    `tokens_per_step` counts sub-words of all workers together; every step holds two stories at least, however
    long they are. Sums are divided by what the step has, over all workers.
    """

    tokens_per_step: PositiveInt = 8192
    normalization: Literal["step"] = "step"
    epochs: PositiveInt = 5
    learning_rate: Rate = 5e-5


class ChainsRecipe(BaseRecipe):
    """papers/003: mentions of a chain lie close together, those of other stories far away."""

    task: Literal["chains"]
    corpus: CorpusSettings
    windows: WindowSettings = WindowSettings()
    model: MentionVectorSettings = MentionVectorSettings()
    masking: MaskingSettings = MaskingSettings()
    loss: ChainLossSettings = ChainLossSettings()
    training: StoryTraining = StoryTraining()
