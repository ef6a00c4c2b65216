"""What `benchmarks.linking_results` asks: the folds of a corpus, and strings that are NIL."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.unseen_mentions import Fold, fold, folds
from rayner.config import MentionSettings, StandardizerRecipe
from rayner.config.recipe_files import DATA_VARIABLE, corpus_paths
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity
from rayner.retrieval.build import Encode
from rayner.tasks.standardizer.strings import load_entity_strings

UNUSUAL = {"esappmod": 0.85, "ncbi": 1.0, "bc5cdr": 1.0}
"""The share of possible queries that are asked, the most unusual first.

With 0.85, n-grams alone find 73 % of ESAppMod's queries among names and mentions, as they do on the published
test (72.9 %, with all of the training mentions as aliases); with 1.0 they find 77 %.
"""
STRANGERS = (
    "ncbi-disease-pubtator/NCBIdevelopset_corpus.txt",
    "bc5cdr-pubtator/CDR_DevelopmentSet.PubTator.txt",
)
"""Mentions of other domains than software, all NIL."""
MOST_STRANGERS = 300


def remembering(encode: Encode, known: dict[str, np.ndarray]) -> Encode:
    """An encoder that encodes each text once; `known`, vectors by text, is added to."""

    def encoded(texts: Sequence[str]) -> np.ndarray:
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, encode(new), strict=True))
        return np.stack([known[text] for text in texts])

    return encoded


class Material(NamedTuple):
    """What a corpus gives: the entities of the index, the folds, and mentions that are NIL, by their kind."""

    entities: list[Entity]
    folds: list[Fold]
    nil: dict[str, list[MentionString]]


def load_material(corpus: str, recipe: StandardizerRecipe) -> Material:
    """Read the corpus of a recipe."""
    asked = MentionSettings(dev=recipe.mentions.train, types=recipe.mentions.types, are_aliases=False)
    strings = load_entity_strings(recipe.model_copy(update={"mentions": asked}))
    mentions = [m for m in strings.dev if m.entity_ids]
    entities, nil = list(strings.indexed), dict[str, list[MentionString]]()
    if corpus == "esappmod":
        meant = {id_ for mention in mentions for id_ in mention.entity_ids}
        left_out = [entity for entity in entities if entity.entity_id not in meant]
        entities = [entity for entity in entities if entity.entity_id in meant]
        nil = {"entities": _unknown(left_out, entities, mentions), "strangers": _strangers()}
    return Material(entities, folds(entities, mentions, 5, UNUSUAL[corpus]), nil)


def _unknown(
    left_out: Sequence[Entity], entities: Sequence[Entity], mentions: Sequence[MentionString]
) -> list[MentionString]:
    """The names of entities that are not in the index, and that nothing in it is called.

    The catalogue has two thirds of them twice, under another id with the mark `|*` or without `Cloud<>`: what
    is in the index is then the right answer.
    """
    known = {_unmarked(e.name) for e in entities} | {_unmarked(m.text) for m in mentions}
    return [MentionString(e.name, ()) for e in left_out if _unmarked(e.name) not in known]


def _unmarked(name: str) -> str:
    return fold(name.removeprefix("Cloud<>").removesuffix("|*"))


def _strangers() -> list[MentionString]:
    paths = corpus_paths([f"${DATA_VARIABLE}/{path}" for path in STRANGERS], "strangers")
    texts = sorted({m.text for m in read_mention_strings(paths).mentions})
    return [MentionString(text, ()) for text in random.Random(0).sample(texts, MOST_STRANGERS)]
