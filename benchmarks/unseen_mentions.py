"""Held-out mentions that resemble those a standardizer has never seen.

A split of mentions at random is easy: most strings that it holds out are spellings of one that stays. Here a
mention is a query only if no name of the knowledge base and no other mention equals it, ignoring case, and if
it is among the less usual names of its entity, those that have the least in common with another of its names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity


class Fold(NamedTuple):
    """What is learned from and indexed, and what is asked."""

    train: list[MentionString]
    test: list[MentionString]


def folds(
    entities: Sequence[Entity], mentions: Sequence[MentionString], number: int, share: float
) -> list[Fold]:
    """Every query is asked in one fold, and trained on in the others.

    Args:
        share: of the possible queries that are taken, the most unusual first.
    """
    distinct = list({(fold(m.text), m.entity_ids): m for m in mentions}.values())
    asked = unusual(entities, distinct, share)
    places = np.random.default_rng(0).permutation(len(asked)) % number
    fold_of = {id(mention): place for mention, place in zip(asked, places, strict=True)}
    return [
        Fold(
            [m for m in distinct if fold_of.get(id(m)) != place],
            [m for m in asked if fold_of[id(m)] == place],
        )
        for place in range(number)
    ]


def unusual(
    entities: Sequence[Entity], mentions: Sequence[MentionString], share: float
) -> list[MentionString]:
    """The mentions that may be queries, in the order given."""
    owners = Counter(fold(mention.text) for mention in mentions)
    names = {fold(name) for entity in entities for name in (entity.name, *entity.aliases)}
    possible = [m for m in mentions if fold(m.text) not in names and owners[fold(m.text)] == 1]
    likeness = _likeness_to_siblings(entities, mentions, possible)
    chosen = np.sort(np.argsort(likeness, kind="stable")[: round(share * len(possible))])
    return [possible[i] for i in chosen]


def fold(text: str) -> str:
    """The string as it is compared: case and outer space ignored."""
    return text.casefold().strip()


def _likeness_to_siblings(
    entities: Sequence[Entity], mentions: Sequence[MentionString], possible: Sequence[MentionString]
) -> np.ndarray:
    """[N] the highest cosine of n-grams between a mention and another name of one of its entities."""
    strings = [(entity.name, entity.entity_id) for entity in entities]
    strings += [(mention.text, id_) for mention in mentions for id_ in mention.entity_ids]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4))
    rows = csr_matrix(vectorizer.fit_transform([text for text, _ in strings]))
    siblings: dict[str, list[int]] = {}
    for place, (_, entity_id) in enumerate(strings):
        siblings.setdefault(entity_id, []).append(place)
    queries = csr_matrix(vectorizer.transform([mention.text for mention in possible]))
    best = np.zeros(len(possible))
    for i, mention in enumerate(possible):
        near = [p for id_ in mention.entity_ids for p in siblings[id_]]
        near = [p for p in near if fold(strings[p][0]) != fold(mention.text)]
        if near:
            best[i] = cosine_similarity(rows[near], queries[i]).max()
    return best
