"""Which entities are scored for a query: the best of either side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rayner.retrieval import exact
from rayner.retrieval.dense import DenseSide

POOL = 64
"""Candidates of a side, where the caller needs few."""
DEPTH = 8
"""Candidates of a side for each entity that is needed: the best by both are seldom the best by one."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Pairs [P] of a query and an entity, and the names [R] of these entities, pair by pair.

    `first` [P] is where the names of a pair begin.
    """

    query: np.ndarray
    entity: np.ndarray
    first: np.ndarray
    name: np.ndarray
    query_of_name: np.ndarray

    @staticmethod
    def of(entities: Sequence[np.ndarray], first_name: np.ndarray, names: np.ndarray) -> Candidates:
        """From the entities of each query; `first_name` and `names` [E] say which names an entity has."""
        query = np.repeat(np.arange(len(entities)), [len(of_query) for of_query in entities])
        entity = np.concatenate(entities)
        counts = names[entity]
        first = np.cumsum(counts) - counts
        inside = np.arange(counts.sum()) - np.repeat(first, counts)
        name = np.repeat(first_name[entity], counts) + inside
        return Candidates(query, entity, first, name, np.repeat(query, counts))


def dense_candidates(
    dense: DenseSide, entity_of_name: np.ndarray, queries: Tensor, needed: np.ndarray
) -> list[np.ndarray]:
    """The entities of the nearest vectors: at least `needed` [Q] distinct ones, or all."""
    found: list[np.ndarray] = [np.empty(0, np.int64)] * len(needed)
    pending, rows = np.arange(len(needed)), max(POOL, DEPTH * int(needed.max()))
    approximately = True
    while len(pending):
        nearest = dense.nearest(queries[pending], rows, approximately)
        for query, near in zip(pending, nearest, strict=True):
            found[query] = np.unique(entity_of_name[near[near >= 0]]).astype(np.int64)
        if rows >= len(entity_of_name) and not approximately:
            break
        pending = pending[[len(found[query]) < needed[query] for query in pending]]
        # An entity of many names fills the pool; so may a list of the inverted file that has too few.
        rows, approximately = 4 * rows, False
    return found


def lexical_candidates(scores: np.ndarray, needed: np.ndarray) -> list[np.ndarray]:
    """The entities with the highest scores [Q, E]: at least `needed` [Q] of them, or all."""
    pool = max(POOL, DEPTH * int(needed.max()))
    if pool >= scores.shape[1]:
        return [np.arange(scores.shape[1])] * len(scores)
    return list(exact.largest(torch.from_numpy(scores), pool)[1].numpy())
