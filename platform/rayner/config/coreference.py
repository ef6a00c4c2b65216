"""The recipe of the mention-ranking model of coreference."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from rayner.config.base import BaseRecipe, Fraction, Settings
from rayner.config.documents import CorpusSettings, DocumentTraining, WindowSettings


class MentionRankingSettings(Settings):
    """Which spans are compared, and with how many others.

    Spans of up to `max_span_width` words within a sentence are scored as mentions. The best, `spans_per_word`
    for each word of a window, are candidates; each is compared with the `antecedents` candidates before it.
    """

    max_span_width: PositiveInt = 10
    spans_per_word: Annotated[float, Field(gt=0)] = 0.3
    antecedents: PositiveInt = 100
    hidden_size: PositiveInt = 150
    dropout: Fraction = 0.1


class CoreferenceRecipe(BaseRecipe):
    """Mention ranking (Lee et al. 2017, End-to-end Neural Coreference Resolution), over windows.

    Chains of windows that overlap are joined by the mentions that they share.
    """

    task: Literal["coreference"]
    corpus: CorpusSettings
    windows: WindowSettings = WindowSettings(length=384, overlap=128)
    model: MentionRankingSettings = MentionRankingSettings()
    training: DocumentTraining = DocumentTraining()
