"""The recipe of the mention-ranking model of coreference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from rayner.config.base import BaseRecipe, Dropout, Settings
from rayner.config.documents import CorpusSettings, DocumentTraining, WindowSettings


class MentionRankingSettings(Settings):
    """Which spans are compared, and with how many others."""

    max_span_width: PositiveInt = 10
    """Words of the longest span that is scored as a mention, within a sentence."""
    spans_per_word: Annotated[float, Field(gt=0)] = 0.3
    """The best spans are candidates: so many for each word of a window."""
    antecedents: PositiveInt = 100
    """Candidates before it that each candidate is compared with."""
    hidden_size: PositiveInt = 150
    """Width of the hidden layers of the scorers."""
    dropout: Dropout = 0.1
    """Within the encoder, and before the scorers."""


class CoreferenceRecipe(BaseRecipe):
    """Mention ranking (Lee et al. 2017, End-to-end Neural Coreference Resolution), over windows.

    Chains of windows that overlap are joined by the mentions that they share.
    """

    task: Literal["coreference"]
    corpus: CorpusSettings
    windows: WindowSettings = WindowSettings(length=384, overlap=128)
    model: MentionRankingSettings = MentionRankingSettings()
    training: DocumentTraining = DocumentTraining()
