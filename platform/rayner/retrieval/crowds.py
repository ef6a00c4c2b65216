"""More entities of one name than there are candidates: which of them are found depends on nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rayner.retrieval.candidates import Candidates

CROWD = 16
"""Candidates of one score from which on there may be more of that name that are none: a side has at least 64
(`candidates.POOL`), and most of them are then of that name."""


def cut_crowds(
    pairs: Candidates, score: np.ndarray, chosen: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The queries of which `CROWD` candidates or more have the last score that is chosen, and some are not.

    Args:
        score: [P] of the pairs.
        chosen: pairs, those of a query together and best first.

    Yields:
        Where in `chosen` are those of that score, and all pairs of the query that have it.
    """
    query = pairs.query[chosen]
    is_last = np.diff(query, append=-1) != 0
    last = np.full(int(pairs.query[-1]) + 1 if len(pairs.query) else 0, np.inf)
    last[query[is_last]] = score[chosen[is_last]]
    tied = score == last[pairs.query]
    counts = np.bincount(pairs.query[tied], minlength=len(last))
    taken = np.bincount(query[tied[chosen]], minlength=len(last))
    for number in np.flatnonzero((counts >= CROWD) & (counts > taken)):
        of_query = pairs.query == number
        yield np.flatnonzero(tied[chosen] & (query == number)), np.flatnonzero(tied & of_query)
