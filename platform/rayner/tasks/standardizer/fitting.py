"""What a standardizer fits on held-out mentions: what combines its two sides, and when an answer is NIL."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rayner.data.mention_strings import MentionString, fold, unanswerable
from rayner.errors import InputError
from rayner.metrics.earlier_nil import EarlierNil
from rayner.metrics.nil import CANDIDATES, NilCalibration
from rayner.retrieval.combiner import Combiner, Weight, features
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import Found
from rayner.tasks.checkpoint_files import reading_part
from rayner.tasks.standardizer.nil_mentions import calibrate
from rayner.tasks.standardizer.reranker import Query, RankerWeights, Reranker

log = logging.getLogger(__name__)

FILE = "standardizer.json"
WEIGHT = 0.5
"""Of the lexical side where nothing is fitted, for cosines."""
FEWEST = 20
"""Strings with a right candidate, below which nothing is fitted but NIL."""
_COMPARED, _FOLDS = 32, 5
_ONE_QUERY = np.zeros(1, np.int64)


@dataclass(frozen=True, slots=True)
class Fitted:
    """What both sides weigh; `nil` None where there was nothing to fit it on. `base` is the digest of the
    entities that were learned.

    `reranker` is how a re-ranker's scores count, None without one. `without`, `reranker_without` and
    `fold_of` are not kept in a checkpoint: what was fitted without each fifth of the strings, and which fifth
    a string is of, ignoring case and spaces.
    """

    weight: Weight = WEIGHT
    nil: NilCalibration | EarlierNil | None = None
    reranker: RankerWeights | None = None
    base: str | None = field(default=None, compare=False)
    without: tuple[Combiner, ...] = field(default=(), compare=False)
    reranker_without: tuple[RankerWeights, ...] = field(default=(), compare=False)
    fold_of: Mapping[str, int] = field(default_factory=dict, compare=False)

    def search_held_out(
        self,
        index: EntityIndex,
        texts: Sequence[str],
        vectors: np.ndarray,
        k: int,
        exclude: Sequence[Sequence[str]] | None = None,
    ) -> list[list[Found]]:
        """As `EntityIndex.search`, each text by what was fitted without it."""
        number = np.array([self.fold_of.get(fold(text), -1) for text in texts], np.int64)
        found: list[list[Found]] = [[] for _ in texts]
        for one in np.unique(number).tolist():
            rows = np.flatnonzero(number == one).tolist()
            weight = self.weight if one < 0 else self.without[one]
            out = None if exclude is None else [exclude[row] for row in rows]
            of_rows = index.search([texts[row] for row in rows], vectors[rows], k, weight, exclude=out)
            for row, of in zip(rows, of_rows, strict=True):
                found[row] = of
        return found

    def reranker_of(self, text: str) -> RankerWeights:
        """That by which the candidates of a text are re-ranked: fitted without it, where that is kept."""
        assert self.reranker is not None
        number = self.fold_of.get(fold(text), -1) if self.reranker_without else -1
        return self.reranker if number < 0 else self.reranker_without[number]

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint."""
        weight = self.weight.to_json() if isinstance(self.weight, Combiner) else self.weight
        nil = None if self.nil is None else self.nil.to_json()
        values = {"weight": weight, "nil": nil, "knowledge_base": self.base}
        if self.reranker is not None:
            values["reranker"] = self.reranker.to_json()
        (folder / FILE).write_text(json.dumps(values), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Fitted:
        """What `save` wrote; `weight` is a number where nothing combines the sides, as in earlier versions.

        A calibration of an earlier version answers as it did, and the log says so.

        Raises:
            CheckpointError: the file is missing or another's.
            StorageError: it cannot be read now.
        """
        path = folder / FILE
        with reading_part(path):
            values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            nil, weight = values["nil"], values["weight"]
            weight = Combiner.from_json(weight) if isinstance(weight, dict) else float(weight)
            of_ranker = values.get("reranker")
            reranker = None if of_ranker is None else RankerWeights.from_json(of_ranker)
            base = values.get("knowledge_base")
            return cls(weight, None if nil is None else _calibration(nil, path), reranker, base)


def _calibration(values: Mapping[str, Any], path: Path) -> NilCalibration | EarlierNil:
    if "thresholds" not in values:
        return NilCalibration.from_json(values)
    what = "%s: its NIL calibration comes from an earlier version, which no share of NIL changes; train again"
    log.warning(what, path)
    return EarlierNil.from_json(values)


def fit(index: EntityIndex, mentions: Sequence[MentionString], vectors: np.ndarray) -> Fitted:
    """Fit what combines both sides on the candidates of mentions, then calibrate NIL, as `calibrate` says.

    With few mentions the weight stays as it is by default.

    Args:
        vectors: [N, D] of the mentions.
    """
    mentions, vectors = _answerable(mentions, vectors)
    fitted = replace(_fit_combiner(index, mentions, vectors), base=index.entities.digest)

    def search(
        texts: Sequence[str], vectors: np.ndarray, exclude: Sequence[Sequence[str]] | None = None
    ) -> list[list[Found]]:
        return fitted.search_held_out(index, texts, vectors, CANDIDATES, exclude)

    return replace(fitted, nil=calibrate(index, mentions, vectors, search, fitted.weight))


def _answerable(
    mentions: Sequence[MentionString], vectors: np.ndarray
) -> tuple[list[MentionString], np.ndarray]:
    kept = [i for i, mention in enumerate(mentions) if unanswerable(mention.text) is None]
    return [mentions[i] for i in kept], vectors[kept]


def fit_reranker(
    index: EntityIndex, mentions: Sequence[MentionString], vectors: np.ndarray, reranker: Reranker
) -> Fitted:
    """As `fit`, and how the scores of a re-ranker count: whatever is judged afterwards, NIL among it, is
    judged by what the re-ranker leaves.

    Args:
        vectors: [N, D] of the mentions.
        reranker: its weights are not read.

    Raises:
        InputError: too few of the mentions have both a right and a wrong candidate, or nothing that the
            index knows of these tells one from the other.
    """
    mentions, vectors = _answerable(mentions, vectors)
    fitted = replace(_fit_combiner(index, mentions, vectors), base=index.entities.digest)
    sentence_of = {mention.text: mention.sentence for mention in mentions}
    of_folds = fitted.fold_of
    linked = [
        i for i, m in enumerate(mentions) if m.entity_ids and (not of_folds or fold(m.text) in of_folds)
    ]
    texts = [mentions[i].text for i in linked]
    found = fitted.search_held_out(index, texts, vectors[linked], reranker.candidates)
    right = [
        np.array([one.entity_id in mentions[i].entity_ids for one in of], bool)
        for i, of in zip(linked, found, strict=True)
    ]
    told = [row for row, of in enumerate(right) if of.any() and not of.all()]

    strings = len({fold(texts[row]) for row in told})
    if strings < FEWEST:
        what = (
            f"{strings} held-out mentions have both a right and a wrong candidate, of {FEWEST} to fit it on"
        )
        raise InputError("the re-ranker", what, "name more as mentions.dev, or raise mentions.dev_fraction")
    if not of_folds:
        what = "neither vectors nor n-grams tell right candidates of the held-out mentions from wrong ones"
        raise InputError("the re-ranker", what, "train the standardizer for longer, or on other mentions")
    queries = [Query(text, sentence_of[text]) for text in texts]
    # The searches that NIL is fitted on give mostly the same pairs.
    reranker = Reranker(reranker.ranker, reranker.entities, reranker.candidates, fitted.reranker_of, {})
    given = [
        np.stack([np.array([one.score for one in of]), ranker], -1)
        for of, ranker in zip(found, reranker.log_odds(queries, found), strict=True)
    ]

    def weights(without: int | None = None) -> RankerWeights:
        rows = [row for row in told if fitted.fold_of[fold(texts[row])] != without]
        given_rows = np.concatenate([given[row] for row in rows])
        model = _logistic(given_rows, np.concatenate([right[row] for row in rows]))
        # Where neither tells right from wrong, the order stays.
        of_both, intercept = model or (np.array([1.0, 0.0]), 0.0)
        return RankerWeights(reranker.candidates, *of_both.tolist(), intercept=intercept)

    without = tuple(map(weights, range(_FOLDS)))
    fitted = replace(fitted, reranker=weights(), reranker_without=without)
    reranker.weights_of = fitted.reranker_of

    def search(
        texts: Sequence[str], vectors: np.ndarray, exclude: Sequence[Sequence[str]] | None = None
    ) -> list[list[Found]]:
        found = fitted.search_held_out(index, texts, vectors, reranker.candidates, exclude)
        return reranker.rerank([Query(text, sentence_of.get(text)) for text in texts], found)

    return replace(fitted, nil=calibrate(index, mentions, vectors, search, fitted.weight, reranked=True))


def _fit_combiner(index: EntityIndex, mentions: Sequence[MentionString], vectors: np.ndarray) -> Fitted:
    linked = [i for i, mention in enumerate(mentions) if mention.entity_ids]
    texts, gold = [mentions[i].text for i in linked], [mentions[i].entity_ids for i in linked]
    plain = Fitted(_plain_weight(index, texts, vectors[linked]))
    found = index.search(texts, vectors[linked], _COMPARED, plain.weight) if linked else []
    right = [np.array([f.entity_id in ids for f in of], bool) for of, ids in zip(found, gold, strict=True)]
    told = [i for i, of in enumerate(right) if of.any() and not of.all()]
    strings = list(dict.fromkeys(fold(texts[i]) for i in told))
    if len(strings) < FEWEST:
        return plain
    sides = [np.array([(f.dense, f.lexical) for f in found[i]]).T for i in told]
    given = [features(dense, lexical, _ONE_QUERY) for dense, lexical in sides]
    drawn = np.random.default_rng(0).permutation(len(strings)) % _FOLDS
    fold_of = dict(zip(strings, drawn.tolist(), strict=True))

    def fitted(without: int | None = None) -> Combiner | None:
        rows = [row for row, i in enumerate(told) if fold_of[fold(texts[i])] != without]
        model = _logistic(
            np.concatenate([given[row] for row in rows]), np.concatenate([right[told[row]] for row in rows])
        )
        return model and Combiner(*model[0].tolist(), intercept=model[1])

    combiner, without = fitted(), [fitted(number) for number in range(_FOLDS)]
    known = [one for one in without if one is not None]
    if combiner is None or len(known) < _FOLDS:
        return plain
    return Fitted(combiner, without=tuple(known), fold_of=fold_of)


def _plain_weight(index: EntityIndex, texts: Sequence[str], vectors: np.ndarray) -> float:
    """The lexical weight where nothing is fitted.

    Cosines of vectors and of n-grams are comparable as they are. Distances have the unit of the vectors: the
    weight is in units of how much farther a mention's candidates lie apart by them than by n-grams.
    """
    weight = WEIGHT
    if index.dense.distance == "cosine" or not texts:
        return weight
    found = index.search(texts, vectors, _COMPARED, 1.0)
    spreads = [(np.std([f.dense for f in of]), np.std([f.lexical for f in of])) for of in found if of]
    dense, lexical = np.median(spreads, axis=0) if spreads else (0.0, 0.0)
    return weight * float(dense / lexical) if dense and lexical else weight


def _logistic(given: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Log odds of right [N] by features [N, F]: the weights [F] and the intercept. A feature that would speak
    against a candidate is left out, the worst first; None where none is left."""
    # Imported where it is used: an index that answers has no use for it.
    from sklearn.linear_model import LogisticRegression

    scales = given.std(0)
    used = np.flatnonzero(scales > 1e-9)
    while len(used):
        model = LogisticRegression(max_iter=1000).fit(given[:, used] / scales[used], right)
        if model.coef_[0].min() >= 0:
            weights = np.zeros(given.shape[1])
            weights[used] = model.coef_[0] / scales[used]
            return weights, float(model.intercept_[0])
        used = np.delete(used, model.coef_[0].argmin())
    return None
