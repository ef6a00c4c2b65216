"""Recipes: the YAML files that describe one run."""

from __future__ import annotations

from rayner.config.base import (
    BaseRecipe,
    Fraction,
    Rate,
    ScalingSettings,
    Settings,
    TrackingSettings,
    TrainingSettings,
)
from rayner.config.chains import ChainsRecipe
from rayner.config.documents import (
    ContextSettings,
    CorpusSettings,
    DocumentRecipe,
    DocumentTraining,
    LabelSettings,
    Types,
    TypeSettings,
    WindowSettings,
)
from rayner.config.index import IndexSettings
from rayner.config.prompts import ContextKindSettings, PromptSettings
from rayner.config.ranker import (
    CrossEncoderSettings,
    PairSettings,
    PairTraining,
    RankerRecipe,
    RelevanceSettings,
)
from rayner.config.recognizer import (
    AddedTypes,
    BiEncoderSettings,
    ContrastSettings,
    RecognizerRecipe,
    ScoreSettings,
    SelfTraining,
    SpanDecoding,
)
from rayner.config.standardizer import (
    ColumnSettings,
    ContrastiveTraining,
    GroupSettings,
    KnowledgeBaseSettings,
    MentionSettings,
    MiningSettings,
    NameEncoderSettings,
    StandardizerRecipe,
    VariantSettings,
)
from rayner.config.tagger import TaggerRecipe, TaggerSettings, TaggingSettings
from rayner.config.typer import TypeDecoding, TyperRecipe, TyperSettings

__all__ = [
    "AddedTypes",
    "BaseRecipe",
    "BiEncoderSettings",
    "ChainsRecipe",
    "ColumnSettings",
    "ContextKindSettings",
    "ContextSettings",
    "ContrastSettings",
    "ContrastiveTraining",
    "CorpusSettings",
    "CrossEncoderSettings",
    "DocumentRecipe",
    "DocumentTraining",
    "Fraction",
    "GroupSettings",
    "IndexSettings",
    "KnowledgeBaseSettings",
    "LabelSettings",
    "MentionSettings",
    "MiningSettings",
    "NameEncoderSettings",
    "PairSettings",
    "PairTraining",
    "PromptSettings",
    "RankerRecipe",
    "Rate",
    "RecognizerRecipe",
    "RelevanceSettings",
    "ScalingSettings",
    "ScoreSettings",
    "SelfTraining",
    "Settings",
    "SpanDecoding",
    "StandardizerRecipe",
    "TaggerRecipe",
    "TaggerSettings",
    "TaggingSettings",
    "TrackingSettings",
    "TrainingSettings",
    "TypeDecoding",
    "TypeSettings",
    "TyperRecipe",
    "TyperSettings",
    "Types",
    "VariantSettings",
    "WindowSettings",
]
