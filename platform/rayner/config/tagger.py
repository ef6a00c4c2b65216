"""The recipe of the tagger."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rayner.config.base import Fraction, Rate, Settings
from rayner.config.documents import DocumentRecipe


class TaggerSettings(Settings):
    """A linear head on the encoder."""

    scheme: Literal["BIO", "BIOES"] = "BIO"
    dropout: Fraction = 0.1


class TaggingSettings(Settings):
    """What words count for in the cross-entropy.

    `outside: neighbours` counts words outside of mentions only immediately before or after one (papers/003,
    appendix A). `class_weights` are by type, 1 where a type has none; `outside_weight` is that of words
    outside.
    """

    outside: Literal["all", "neighbours"] = "all"
    outside_weight: Rate = 1.0
    class_weights: dict[str, Rate] = Field(default_factory=dict)


class TaggerRecipe(DocumentRecipe):
    """Token classification, the baseline.

    `decoding: greedy` takes the best label of each word and repairs what does not fit together, `constrained`
    the most probable sequence of labels that do.
    """

    task: Literal["tagger"]
    model: TaggerSettings = TaggerSettings()
    loss: TaggingSettings = TaggingSettings()
    decoding: Literal["greedy", "constrained"] = "greedy"

    @model_validator(mode="after")
    def _weights_are_of_types(self) -> TaggerRecipe:
        names = [t.name for t in self.types]
        if unknown := sorted(set(self.loss.class_weights) - set(names)):
            raise ValueError(
                f"loss.class_weights names {unknown[0]!r}, which is no type: they are {', '.join(names)}"
            )
        return self
