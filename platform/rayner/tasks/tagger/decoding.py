"""The most probable sequence of labels among those that mean mentions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_APART = 700.0
"""Of scores at a place, and twice of those between labels: the exponential of less is no 0 in float64."""


def log_marginals(scores: np.ndarray, between: np.ndarray) -> np.ndarray:
    """[T, C] the log-probability of each label at each place, under exp of the sum of scores [T, C] and of
    `between` [C, C] over all sequences (forward-backward); below -700 it may be -708.

    What reaches a place is scaled to a sum of 1, and products take the place of logarithms of sums, which
    cost the square of the labels in exponentials; those are left for scores so far apart that a product
    would be 0.
    """
    if not len(scores):
        return np.zeros(scores.shape)
    if not np.ptp(scores, axis=1).max() + 2 * np.ptp(between) < MOST_APART:
        return _log_marginals_by_sums(scores, between)
    own = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    step = np.exp(between.astype(np.float64) - between.max())
    before, after = np.empty(own.shape), np.ones(own.shape)
    before[0] = own[0] / own[0].sum()
    for place in range(1, len(own)):
        reached = before[place - 1] @ step * own[place]
        before[place] = reached / reached.sum()
    for place in range(len(own) - 2, -1, -1):
        reached = step @ (own[place + 1] * after[place + 1])
        after[place] = reached / reached.sum()
    joint = before * after
    joint /= joint.sum(1, keepdims=True)
    return np.log(np.maximum(joint, np.finfo(np.float64).tiny))


def _log_marginals_by_sums(scores: np.ndarray, between: np.ndarray) -> np.ndarray:
    before, after = scores.astype(np.float64), np.zeros(scores.shape)
    for place in range(1, len(scores)):
        before[place] += np.logaddexp.reduce(before[place - 1][:, None] + between, 0)
    for place in range(len(scores) - 2, -1, -1):
        after[place] = np.logaddexp.reduce(between + scores[place + 1] + after[place + 1], 1)
    joint = before + after
    return joint - np.logaddexp.reduce(joint, 1, keepdims=True)


class TagGrammar:
    """Which sequences of labels are unbroken, in BIO or BIOES.

    In BIO, `I-X` follows `B-X` or `I-X`. In BIOES, `I-X` and `E-X` follow `B-X` or `I-X`, which nothing else
    follows, and which are not last.

    Args:
        labels: `O`, and for each type X its `B-X`, `I-X` and, in BIOES, `E-X` and `S-X`, in any order.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        ends_are_marked = any(label[0] in "ES" for label in labels)
        continues = np.array([label[0] in "IE" for label in labels])
        opens = np.array([label[0] in "BI" for label in labels])
        types = np.array([label[2:] for label in labels])
        of_one_type = types[:, None] == types
        self.follows = np.where(continues, opens[:, None] & of_one_type, True)
        """bool [C, C] whether the second label may follow the first"""
        if ends_are_marked:
            self.follows &= continues | ~opens[:, None]
        self.begins = ~continues
        """bool [C] which labels may be first"""
        self.ends = ~opens if ends_are_marked else np.ones(len(labels), bool)
        """bool [C] which may be last"""

    def allows(self, labels: np.ndarray) -> bool:
        """Whether a sequence of labels [T] is unbroken."""
        if not len(labels):
            return True
        inner = self.follows[labels[:-1], labels[1:]].all()
        return bool(inner and self.begins[labels[0]] and self.ends[labels[-1]])

    def best(self, scores: np.ndarray, between: np.ndarray | None = None) -> np.ndarray:
        """The unbroken sequence of labels [T] with the highest sum of scores [T, C] (Viterbi).

        Args:
            between: [C, C] what is added for a label (second) after another (first).
        """
        greedy = scores.argmax(1)
        if (between is None or not len(scores)) and self.allows(greedy):
            return greedy
        forbidden = np.where(self.follows, 0.0 if between is None else between, -np.inf)
        back = np.zeros(scores.shape, dtype=np.int64)
        reached = np.where(self.begins, scores[0], -np.inf)
        every = np.arange(scores.shape[1])
        for place in range(1, len(scores)):
            through = reached[:, None] + forbidden
            back[place] = through.argmax(0)
            reached = through[back[place], every] + scores[place]
        path = np.empty(len(scores), dtype=np.int64)
        path[-1] = np.where(self.ends, reached, -np.inf).argmax()
        for place in range(len(scores) - 1, 0, -1):
            path[place - 1] = back[place, path[place]]
        return path
