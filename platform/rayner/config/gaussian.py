"""The recipe of Gaussian contrastive pre-training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from rayner.config.base import Dropout, Settings
from rayner.config.documents import DocumentRecipe, DocumentTraining


class GaussianSettings(Settings):
    """Heads for the mean and the variance of each word (papers/004, section 2.1 and 3.1)."""

    embedding_size: PositiveInt = 128
    """Width of the mean and of the variance."""
    dropout: Dropout = 0.1
    """Within the encoder, and before the two heads."""


class GaussianContrastSettings(Settings):
    """Which words are drawn together (papers/004, section 2.2)."""

    positives: Literal["types", "tags"] = "types"
    """`types`: words in mentions of one type, as in the published code of CONTaiNER. `tags` tells their first
    words from the others."""
    outside: Literal["anchors", "negatives"] = "anchors"
    """`anchors` draws words outside of mentions together, too; `negatives` holds them against the others
    only."""


class GaussianTraining(DocumentTraining):
    """Optimization over windows, beside what every training has."""

    normalization: Literal["step"] = "step"
    """The contrast is divided by the anchors of the step, over all workers."""


class GaussianRecipe(DocumentRecipe):
    """papers/004: the Gaussians of words with equal labels lie close together. The development set is scored
    by nearest neighbours."""

    task: Literal["gaussian"]
    model: GaussianSettings = GaussianSettings()
    loss: GaussianContrastSettings = GaussianContrastSettings()
    training: GaussianTraining = GaussianTraining()
    support_words: Annotated[int, Field(ge=1)] = 4096
    """Words of dev that are held as neighbours, at most."""

    def without_effect(self) -> Mapping[str, str]:
        """As `Settings.without_effect`."""
        has_dev = self.corpus.dev or self.corpus.dev_fraction
        return {} if has_dev else {"support_words": "the recipe has no dev"}
