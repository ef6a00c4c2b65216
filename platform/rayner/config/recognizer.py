"""The recipe of the recognizer (papers/000)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import Fraction, Rate, Settings
from rayner.config.documents import DocumentRecipe


class BiEncoderSettings(Settings):
    """The bi-encoder of papers/000, sections 2.1 and 4."""

    encoders: Literal["separate", "shared"] = "separate"
    train_type_encoder: bool = True
    type_encoding: Literal["guideline", "keyword", "atomic", "prototype"] = "guideline"
    projection_size: PositiveInt = 128
    width_embedding_size: Annotated[int, Field(ge=0)] = 128
    shared_linear: bool = False
    max_span_width: PositiveInt = 30
    threshold: Literal["dynamic", "learned", "tuned"] = "dynamic"
    temperature: Rate = 0.07
    dropout: Fraction = 0.1
    span_dropout: Literal["window", "span"] = "window"
    types_per_step: PositiveInt | None = None


class ContrastSettings(Settings):
    """The objective of papers/000, equations 5 to 10. `beta` weighs mentions against thresholds."""

    start_weight: Annotated[float, Field(ge=0)] = 0.2
    end_weight: Annotated[float, Field(ge=0)] = 0.2
    span_weight: Annotated[float, Field(ge=0)] = 0.6
    beta: Fraction = 0.5
    negatives: Literal["band", "all"] = "band"
    threshold_in_denominator: bool = True


class SpanDecoding(Settings):
    """How spans become mentions (papers/000, algorithm 1)."""

    overlap: Literal["flat", "nested"] = "flat"
    joint: bool = False


class RecognizerRecipe(DocumentRecipe):
    """papers/000: spans and types in one vector space."""

    task: Literal["recognizer"]
    model: BiEncoderSettings = BiEncoderSettings()
    loss: ContrastSettings = ContrastSettings()
    decoding: SpanDecoding = SpanDecoding()

    @model_validator(mode="after")
    def _thresholds_have_a_dev(self) -> RecognizerRecipe:
        if self.model.threshold == "tuned" and not (self.corpus.dev or self.corpus.dev_fraction):
            raise ValueError("model.threshold tuned needs corpus.dev or corpus.dev_fraction to tune on")
        return self

    @model_validator(mode="after")
    def _every_mention_fits_a_window(self) -> RecognizerRecipe:
        needed = self.model.max_span_width - 1
        if self.windows.overlap < needed:
            raise ValueError(
                f"windows.overlap {self.windows.overlap} loses mentions of max_span_width "
                f"{self.model.max_span_width} between two windows: it must be at least {needed}"
            )
        return self
