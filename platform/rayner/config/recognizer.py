"""The recipe of the recognizer (papers/000)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from rayner.config.base import Dropout, Fraction, Rate, Settings
from rayner.config.documents import DocumentRecipe, TypeSettings, named


class BiEncoderSettings(Settings):
    """The bi-encoder of papers/000, sections 2.1 and 4."""

    encoders: Literal["separate", "shared"] = "separate"
    """An encoder for texts and another for types, or one for both."""
    train_type_encoder: bool = True
    """Whether the type encoder learns from types; if not, only its projections do: it reads each type once,
    or with `encoders: shared`, where texts teach it, in each step."""
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
    dropout: Dropout = 0.1
    """Within the encoders, and after the projections."""
    span_dropout: Literal["window", "span"] = "window"
    """One mask for all spans of a window, or one for each span (as published; slower)."""
    types_per_step: PositiveInt | None = None
    """With many types: how many a training step draws. Null: all."""
    descriptions: Literal["mean", "drawn"] = "mean"
    """What a training step reads of a type that has several descriptions (or prototypes): all, or one by
    chance, as of a type that is paraphrased. Answers take the mean of all."""
    absent_per_step: PositiveInt = 8
    """How many of the recipe's `absent` types a training step draws."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        unread = ("encoders", "train_type_encoder") if self.type_encoding == "atomic" else ()
        texts_are_one = self.type_encoding in ("atomic", "keyword")
        why = f"model.type_encoding is {self.type_encoding}"
        found = dict.fromkeys([*unread, *(("descriptions",) if texts_are_one else ())], why)
        return found if self.dropout else {**found, "span_dropout": "model.dropout is 0"}


class ContrastSettings(Settings):
    """The objective of papers/000, equations 5 to 10."""

    start_weight: Annotated[float, Field(ge=0)] = 0.2
    """Weight of the starts of mentions."""
    end_weight: Annotated[float, Field(ge=0)] = 0.2
    """Weight of the ends of mentions."""
    span_weight: Annotated[float, Field(gt=0)] = 0.6
    """Weight of whole mentions, which decoding always goes by."""
    beta: Fraction = 0.5
    """Weight of mentions against thresholds: 1 has mentions alone, and needs `threshold_in_denominator`, or a
    threshold that is tuned."""
    negatives: Literal["band", "all"] = "band"
    """Spans that a mention is compared with: those up to `max_span_width`, or all of the window (as
    published; slower)."""
    threshold_in_denominator: bool = True
    """Whether the threshold is a negative of each mention, too."""
    boundary_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0
    """The part of a mention's weight that goes to the spans whose start or end is one word off (Zhu and Li
    2022). 0: all is the mention's."""
    r_drop: Annotated[float, Field(ge=0)] = 0
    """Weight of the difference of what two passes with different dropout decide about spans (Liang et al.
    2021). With it each step takes two passes, twice the time; 0: one."""


class SpanDecoding(Settings):
    """How spans become mentions (papers/000, algorithm 1)."""

    overlap: Literal["flat", "nested"] = "flat"
    """`flat`: no two mentions share a character. `nested`: mentions may lie in one another."""
    joint: bool = False
    """Whether the start and the end must reach their thresholds, too."""
    flat: Literal["greedy", "optimal"] = "greedy"
    """With `overlap: flat`, which of overlapping mentions are kept: those furthest above their thresholds
    first, or those whose margins have the largest sum."""
    start_weight: Fraction = 0
    """How much the margin of the start counts in that of a mention; what is left counts for the span."""
    end_weight: Fraction = 0
    """How much the margin of the end counts."""

    @property
    def span_weight(self) -> float:
        """How much the margin of the span counts."""
        return 1.0 - self.start_weight - self.end_weight

    @model_validator(mode="after")
    def _span_counts(self) -> SpanDecoding:
        if self.start_weight + self.end_weight >= 1:
            raise ValueError("start_weight and end_weight leave nothing for the span: keep their sum below 1")
        return self


class ScoreSettings(Settings):
    """What is fitted on documents that are set apart: scores that are probabilities, and thresholds."""

    fraction: Annotated[float, Field(ge=0, lt=1)] = 0
    """The fraction of the training documents that is set apart, no group cut and no text in both parts, to
    fit how probable it is that a mention is right, by its type and margin. It changes nothing of a mention
    but its score. 0: nothing is fitted, and a score is the logistic function of the margin."""
    thresholds: bool = False
    """Whether the threshold of each type is moved, too, to where the F1 of the type is highest on these
    documents; the fewer mentions a type has in them, the less."""

    @model_validator(mode="after")
    def _something_is_set_apart(self) -> ScoreSettings:
        if self.thresholds and not self.fraction:
            raise ValueError("thresholds need documents that are set apart: give a fraction such as 0.1")
        return self


class SelfTraining(Settings):
    """A second stage, in which the recognizer learns from a teacher, too: from itself with averaged weights
    (`training.average`). For labels that miss mentions, as those of a dictionary do."""

    start_epoch: Annotated[int, Field(ge=2)] = 2
    """The epoch in which it begins, the first being 1: those before learn from the labels alone, and
    `training.patience` does not count their evaluations."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.9
    """How probable a decision of the teacher about a span must be to be learned from. Spans that it does not
    hold for no mention with this confidence are no negatives."""
    weight: Rate = 1.0
    """Weight of the teacher's decisions, against that of the labels."""


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
    self_training: SelfTraining | None = None
    """With it, a second stage learns from a teacher with averaged weights; needs `training.average`. Null:
    there is no second stage."""
    absent: tuple[TypeSettings, ...] = ()
    """Types of which the training documents have no mention, whether annotated or not: each step draws some,
    of which no span is a mention. Where a corpus has few types, a model learns from them to read
    descriptions."""
    added: AddedTypes | None = None
    """What `rayner train RECIPE --add-types CHECKPOINT` makes of a recipe. Null: all types learn."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        found = {} if self.absent else {"model.absent_per_step": "absent has no types"}
        if self.model.threshold == "tuned":
            of_thresholds = ("loss.beta", "loss.threshold_in_denominator", "decoding.joint")
            found |= dict.fromkeys(of_thresholds, "model.threshold is tuned")
        if self.added is not None:
            found["loss.r_drop"] = "added types learn without dropout, so both passes are equal"
        elif not self.model.dropout:
            found["loss.r_drop"] = "model.dropout is 0, so both passes are equal"
        return found

    @model_validator(mode="after")
    def _right_is_known(self) -> RecognizerRecipe:
        if self.calibration.fraction and self.corpus.dictionary:
            raise ValueError(
                "calibration.fraction needs mentions that somebody annotated, and corpus.dictionary "
                "takes their place: drop one"
            )
        return self

    @model_validator(mode="after")
    def _a_teacher_can_be_had(self) -> RecognizerRecipe:
        if self.self_training is None:
            return self
        start, epochs = self.self_training.start_epoch, self.training.epochs
        if start > epochs:
            raise ValueError(f"self_training.start_epoch {start} never comes: training.epochs is {epochs}")
        if self.training.average is None:
            raise ValueError("self_training needs training.average, the decay of its teacher, such as 0.995")
        if self.model.threshold == "tuned":
            raise ValueError(
                "self_training learns decisions, and with model.threshold tuned training has none"
            )
        if self.absent or self.added is not None:
            raise ValueError("self_training conflicts with absent and with added types: leave it out")
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

    @property
    def annotatable(self) -> tuple[str, ...]:
        """With the absent ones."""
        return (*super().annotatable, *(one.name for one in self.absent))

    @model_validator(mode="after")
    def _absent_types_can_be_read(self) -> RecognizerRecipe:
        if not self.absent:
            return self
        if self.model.threshold != "dynamic" or self.model.type_encoding == "atomic":
            raise ValueError(
                "absent types have texts and no threshold of their own: model.threshold must be dynamic, "
                "and model.type_encoding not atomic"
            )
        if self.added is not None:
            raise ValueError("absent conflicts with added types, which learn alone: leave it out")
        names = [t.name for t in (*self.types, *self.absent)]
        for name in names:
            named(name)
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"the type {twice[0]!r} occurs twice in `types` and `absent`")
        return self

    @model_validator(mode="after")
    def _decisions_have_thresholds(self) -> RecognizerRecipe:
        if self.model.threshold == "tuned" and self.loss.r_drop:
            raise ValueError(
                "loss.r_drop compares decisions, and with model.threshold tuned training has none"
            )
        return self

    @model_validator(mode="after")
    def _thresholds_are_learned_or_fitted(self) -> RecognizerRecipe:
        # Added types begin with the thresholds of their checkpoint.
        is_had = self.model.threshold == "tuned" or self.added is not None
        if self.loss.beta == 1 and not self.loss.threshold_in_denominator and not is_had:
            raise ValueError(
                "loss.beta 1 with loss.threshold_in_denominator false trains no threshold, so that what is "
                "found is chance: lower loss.beta, or set model.threshold tuned, and train anew"
            )
        return self

    @model_validator(mode="after")
    def _what_counts_has_a_threshold(self) -> RecognizerRecipe:
        if self.model.threshold == "tuned" and self.decoding.span_weight < 1:
            raise ValueError(
                "decoding.start_weight and end_weight need thresholds of starts and ends, and "
                "model.threshold tuned has those of spans alone"
            )
        return self

    @model_validator(mode="after")
    def _what_counts_is_learned(self) -> RecognizerRecipe:
        for part in ("start", "end"):
            counts = getattr(self.decoding, f"{part}_weight") or self.decoding.joint
            if counts and not getattr(self.loss, f"{part}_weight") and self.model.threshold != "tuned":
                raise ValueError(
                    f"loss.{part}_weight 0 trains no {part} of a mention, which decoding.joint and "
                    f"decoding.{part}_weight go by: give it a weight, or decode by spans alone"
                )
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
