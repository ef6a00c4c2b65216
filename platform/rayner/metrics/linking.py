"""Scores of linking: how often the right entity is first, and how well NIL is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rayner.data.mention_strings import fold, is_right

TOP = (1, 3, 5)
RANKS = 10
"""Candidates of a mention that `mrr` looks at; who is scored by it asks for so many."""


class GoldMention(Protocol):
    """A mention and its right entities; none is NIL."""

    @property
    def text(self) -> str: ...
    @property
    def entity_ids(self) -> Sequence[str]: ...


class Candidate(Protocol):
    """An entity that was found."""

    @property
    def entity_id(self) -> str: ...
    @property
    def name(self) -> str: ...


class GivenAnswer(Protocol):
    """An answer; `entity_id` None is NIL."""

    @property
    def entity_id(self) -> str | None: ...
    @property
    def score(self) -> float: ...
    @property
    def probability(self) -> float | None: ...
    @property
    def candidates(self) -> Sequence[Candidate]: ...


@dataclass(frozen=True, slots=True)
class Judged:
    """Answers beside the truth, one row a mention [N].

    `linkable`: there is a right entity. `rank` of the first right candidate, from 1; infinity if none is.
    `linked`: the answer is not NIL. `right`: the answer is right, NIL included. `confidence`: the probability
    that the first candidate is right or, where an answer lacks it, the score of all.
    """

    linkable: np.ndarray
    rank: np.ndarray
    linked: np.ndarray
    right: np.ndarray
    confidence: np.ndarray

    def __getitem__(self, rows: np.ndarray) -> Judged:
        columns = (self.linkable, self.rank, self.linked, self.right, self.confidence)
        return Judged(*(column[rows] for column in columns))


def judge(gold: Sequence[GoldMention], answers: Sequence[GivenAnswer]) -> Judged:
    """Compare answers with the truth, mention by mention. Any of several right entities is right,
    and so are several of them."""
    pairs = list(zip(gold, answers, strict=True))
    places = (
        (i for i, found in enumerate(answer.candidates, 1) if found.entity_id in mention.entity_ids)
        for mention, answer in pairs
    )
    rank = np.array([next(place, np.inf) for place in places], np.float64)
    right = [
        is_right(answer.entity_id, mention.entity_ids) if mention.entity_ids else answer.entity_id is None
        for mention, answer in pairs
    ]
    probable = [answer.probability for answer in answers]
    confidence = [a.score for a in answers] if None in probable else probable
    return Judged(
        np.array([bool(mention.entity_ids) for mention in gold], bool),
        rank,
        np.array([answer.entity_id is not None for answer in answers], bool),
        np.array(right, bool),
        np.array(confidence, np.float64),
    )


def score_linking(
    gold: Sequence[GoldMention], answers: Sequence[GivenAnswer], known: Iterable[str] | None = None
) -> dict[str, Any]:
    """Metrics of linking.

    Args:
        known: strings that the index or the training has; with them, mentions that equal one (ignoring case)
            and all others are also scored apart.

    Returns:
        `top1, top3, top5, mrr`: by the candidates of mentions that have an entity, whatever was judged NIL;
        None where no mention has one. `mrr` is the mean of 1 over the rank of the first right candidate, 0
        where none of the first `RANKS` is right. `nil_precision, nil_recall, nil_auc`: of NIL, the last one
        the area under the ROC curve for telling mentions with an entity from those without; None where no
        mention is NIL (the area also where all are). `accuracy`: answers that are right, NIL included.
        `mentions`, `linkable`, `nil`: how many there are. `seen`, `unseen`: the same.
    """
    judged = judge(gold, answers)
    scores = _scores(judged)
    if known is not None:
        seen = seen_among(gold, known)
        scores |= {"seen": _scores(judged[seen]), "unseen": _scores(judged[~seen])}
    return scores


def seen_among(gold: Sequence[GoldMention], known: Iterable[str]) -> np.ndarray:
    """Which mentions equal a known string, ignoring case and how their words are spaced: [N] booleans."""
    texts = [fold(mention.text) for mention in gold]
    # Of many known strings, none but these few are kept.
    found = set(texts).intersection(map(fold, known))
    return np.array([text in found for text in texts], bool)


def roc_points(judged: Judged, points: int = 200) -> list[dict[str, float]]:
    """The ROC curve for telling mentions with an entity from NIL by confidence (papers/002, section 5.4).

    Returns:
        Rows `fpr, tpr`, both rising; none where there are not both kinds. At most about `points`.
    """
    if judged.linkable.all() or not judged.linkable.any():
        return []
    from sklearn.metrics import roc_curve

    fpr, tpr, _ = roc_curve(judged.linkable, _ranked(judged.confidence))
    kept = _spread(len(fpr), points)
    return [{"fpr": float(x), "tpr": float(y)} for x, y in zip(fpr[kept], tpr[kept], strict=True)]


def coverage_points(judged: Judged, points: int = 200) -> list[dict[str, float]]:
    """Accuracy of the first candidate among the most confident answers.

    Returns:
        Rows `coverage` (the share of all mentions that are answered, rising), `accuracy` (of those, the share
        whose first candidate is right; one of a NIL mention never is), `confidence` (the lowest of those).
        Mentions of equal confidence enter together.
    """
    if not len(judged.rank):
        return []
    order = np.argsort(-_ranked(judged.confidence), kind="stable")
    confidence = judged.confidence[order]
    ends = np.flatnonzero(np.append(confidence[1:] != confidence[:-1], True))
    accuracy = np.cumsum(judged.rank[order] == 1)[ends] / (ends + 1)
    kept = _spread(len(ends), points)
    rows = zip((ends + 1)[kept] / len(order), accuracy[kept], confidence[ends][kept], strict=True)
    return [{"coverage": float(c), "accuracy": float(a), "confidence": float(t)} for c, a, t in rows]


def _scores(judged: Judged) -> dict[str, Any]:
    rank, nil = judged.rank[judged.linkable], ~judged.linkable
    scores: dict[str, Any] = {f"top{k}": _mean(rank <= k) for k in TOP}
    scores["mrr"] = _mean(reciprocal(rank))
    refused = ~judged.linked
    scores |= dict.fromkeys(("nil_precision", "nil_recall", "nil_auc"))
    if nil.any():
        scores["nil_precision"] = float((nil & refused).sum() / max(refused.sum(), 1))
        scores["nil_recall"] = float(refused[nil].mean())
        if not nil.all():
            from sklearn.metrics import roc_auc_score

            scores["nil_auc"] = float(roc_auc_score(judged.linkable, _ranked(judged.confidence)))
    scores["accuracy"] = _mean(judged.right)
    counts: Mapping[str, int] = {"mentions": len(nil), "linkable": len(rank), "nil": int(nil.sum())}
    return scores | counts


def reciprocal(rank: np.ndarray) -> np.ndarray:
    """1 over ranks [N] up to `RANKS`, 0 beyond."""
    return np.where(rank <= RANKS, 1 / rank, 0.0)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _ranked(confidence: np.ndarray) -> np.ndarray:
    """Ranks in place of the values, which may be infinite."""
    return np.unique(confidence, return_inverse=True)[1].astype(np.float64)


def _spread(count: int, points: int) -> np.ndarray:
    """At most about `points` of `count` indices, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, points)).round().astype(int))
