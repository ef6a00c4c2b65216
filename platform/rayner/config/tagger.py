"""The recipe of the tagger."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rayner.config.base import Dropout, Rate, Settings
from rayner.config.documents import DocumentRecipe


class TaggerSettings(Settings):
    """A linear head on the encoder."""

    scheme: Literal["BIO", "BIOES"] = "BIO"
    """The labels of words: with BIOES, last and single words have labels of their own."""
    dropout: Dropout = 0.1
    """Within the encoder, and before the linear layer."""


class TaggingSettings(Settings):
    """What words count for in the cross-entropy."""

    outside: Literal["all", "neighbours"] = "all"
    """`neighbours` counts words outside of mentions only immediately before or after one (papers/003,
    appendix A)."""
    outside_weight: Rate = 1.0
    """Weight of words outside of mentions."""
    class_weights: dict[str, Rate] = Field(default_factory=dict)
    """Weights by type; 1 where a type has none."""


class TaggerRecipe(DocumentRecipe):
    """Token classification, the baseline."""

    task: Literal["tagger"]
    model: TaggerSettings = TaggerSettings()
    loss: TaggingSettings = TaggingSettings()
    decoding: Literal["greedy", "constrained", "crf"] = "greedy"
    """`greedy` takes the best label of each word and repairs what does not fit together; `constrained` the
    most probable sequence of labels that do (Viterbi). `crf` learns how labels follow each other, too, by a
    linear-chain conditional random field, and takes its most probable sequence that fits together."""
    calibration: Literal["none", "temperature"] = "none"
    """`temperature` divides scores by a temperature before they become probabilities: the one under which
    the labels of dev are most probable, set before each evaluation. It changes no label."""

    @model_validator(mode="after")
    def _sequences_are_whole(self) -> TaggerRecipe:
        if self.decoding == "crf" and self.loss != TaggingSettings():
            raise ValueError("decoding: crf learns whole sequences, whose words count alike: drop `loss`")
        if self.decoding == "crf" and self.calibration != "none":
            raise ValueError("calibration is of probabilities of single words, not of decoding: crf")
        return self

    @model_validator(mode="after")
    def _a_temperature_has_a_dev(self) -> TaggerRecipe:
        if self.calibration == "temperature" and not (self.corpus.dev or self.corpus.dev_fraction):
            raise ValueError("calibration temperature needs corpus.dev or corpus.dev_fraction to be set on")
        return self

    @model_validator(mode="after")
    def _weights_are_of_types(self) -> TaggerRecipe:
        names = [t.name for t in self.types]
        if unknown := sorted(set(self.loss.class_weights) - set(names)):
            raise ValueError(
                f"loss.class_weights names {unknown[0]!r}, which is no type: they are {', '.join(names)}"
            )
        return self
