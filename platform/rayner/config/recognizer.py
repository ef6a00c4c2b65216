"""The recipe of the recognizer (papers/000)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import Fraction, Rate, Settings
from rayner.config.documents import DocumentRecipe


class BiEncoderSettings(Settings):
    """The bi-encoder of papers/000, sections 2.1 and 4."""

    encoders: Literal["separate", "shared"] = "separate"
    """One encoder for texts and types, or two."""
    train_type_encoder: bool = True
    """Whether the type encoder learns; if not, it reads each type once, and only its projections learn."""
    type_encoding: Literal["guideline", "keyword", "atomic", "prototype"] = "guideline"
    """What of a type is encoded: its description, its keyword, nothing (a learned vector), or sentences with
    examples (table 5)."""
    projection_size: PositiveInt = 128
    """Width of the space that spans and types share."""
    width_embedding_size: Annotated[int, Field(ge=0)] = 128
    """Width of the embedding of a span's length; 0 leaves it out."""
    shared_linear: bool = False
    """One projection for starts, ends and spans, in place of three."""
    max_span_width: PositiveInt = 30
    """Sub-words of the longest mention. It sets the least `windows.overlap`."""
    threshold: Literal["dynamic", "learned", "tuned"] = "dynamic"
    """What score a mention must have: the similarity of the type and [CLS] of the window (`dynamic`), a
    learned number for each type, or the one of each type that is best on dev (table 6)."""
    temperature: Rate = 0.07
    """Similarities are divided by it; it is learned from this value on."""
    dropout: Fraction = 0.1
    """Within the encoders, and after the projections."""
    span_dropout: Literal["window", "span"] = "window"
    """One mask for all spans of a window, or one for each span (as published; slower)."""
    types_per_step: PositiveInt | None = None
    """With many types: how many a training step draws. Null: all."""


class ContrastSettings(Settings):
    """The objective of papers/000, equations 5 to 10."""

    start_weight: Annotated[float, Field(ge=0)] = 0.2
    """Weight of the starts of mentions."""
    end_weight: Annotated[float, Field(ge=0)] = 0.2
    """Weight of the ends of mentions."""
    span_weight: Annotated[float, Field(ge=0)] = 0.6
    """Weight of whole mentions."""
    beta: Fraction = 0.5
    """Weight of mentions against thresholds: 1 has mentions alone."""
    negatives: Literal["band", "all"] = "band"
    """Spans that a mention is compared with: those up to `max_span_width`, or all of the window."""
    threshold_in_denominator: bool = True
    """Whether the threshold is a negative of each mention, too."""


class SpanDecoding(Settings):
    """How spans become mentions (papers/000, algorithm 1)."""

    overlap: Literal["flat", "nested"] = "flat"
    """`flat`: no two mentions share a character. `nested`: mentions may lie in one another."""
    joint: bool = False
    """Whether the start and the end must reach their thresholds, too."""


class ScoreSettings(Settings):
    """How scores become probabilities."""

    fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    """The fraction of the training documents that is set apart, no group cut and no text in both parts, to
    fit how probable it is that a mention is right, by its type and margin. It changes nothing of a mention
    but its score. 0: nothing is fitted, and a score is the logistic function of the margin."""


class AddedTypes(Settings):
    """Types that learn alone, beside those of a checkpoint, which stay as they are."""

    checkpoint: str
    """The checkpoint that they are added to."""
    version: str
    """Of the checkpoint: its task, and a hash of its files."""
    types: Annotated[tuple[str, ...], Field(min_length=1)]
    """Those that learn: the last of the recipe's types."""
    earlier: tuple[str, ...] = ()
    """Those before them that had been added to the checkpoint."""


class RecognizerRecipe(DocumentRecipe):
    """papers/000: spans and types in one vector space."""

    task: Literal["recognizer"]
    model: BiEncoderSettings = BiEncoderSettings()
    loss: ContrastSettings = ContrastSettings()
    decoding: SpanDecoding = SpanDecoding()
    calibration: ScoreSettings = ScoreSettings()
    added: AddedTypes | None = None
    """What `rayner train RECIPE --add-types CHECKPOINT` makes of a recipe. Null: all types learn."""

    @model_validator(mode="after")
    def _right_is_known(self) -> RecognizerRecipe:
        if self.calibration.fraction and self.corpus.dictionary:
            raise ValueError(
                "calibration.fraction needs mentions that somebody annotated, and corpus.dictionary "
                "takes their place: drop one"
            )
        return self

    @model_validator(mode="after")
    def _added_types_come_last(self) -> RecognizerRecipe:
        if self.added is not None:
            own = [*self.added.earlier, *self.added.types]
            if [t.name for t in self.types[-len(own) :]] != own:
                raise ValueError(f"added names {', '.join(own)}, which are not the last of types")
        return self

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
