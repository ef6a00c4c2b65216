"""The re-ranker of a standardizer: a cross-encoder reads a mention beside each of its first candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from rayner.data.batches import forwards
from rayner.data.schema import Entity
from rayner.metrics.linking import RANKS
from rayner.retrieval.entity_table import EntityTable
from rayner.retrieval.names import Found
from rayner.tasks.ranker.task import Ranker

RERANKER = "reranker"
"""The folder of a standardizer's checkpoint in which that of its re-ranker lies."""
CANDIDATES = 16
FEWEST_CANDIDATES = RANKS
"""So many are scored in evaluations."""
NAMES_READ = 6
"""Names of an entity that are read, its own and the one that matched among them."""


class Query(NamedTuple):
    """A mention, and the sentence that it is in where that is known."""

    text: str
    sentence: str | None = None

    @property
    def read(self) -> str:
        """What the cross-encoder reads of it; the mention comes first: what is long is cut at its end."""
        return self.text if self.sentence is None else f"{self.text} | {self.sentence}"


def entity_text(entity: Entity, matched: str) -> str:
    """What the cross-encoder reads of a candidate: its name, what matched, others, its description."""
    names = list(dict.fromkeys((entity.name, matched, *entity.aliases)))[:NAMES_READ]
    text = " | ".join(names)
    return " ".join((f"{text}: {entity.description}" if entity.description else text).split())


@dataclass(frozen=True, slots=True)
class RankerWeights:
    """The log odds that a candidate is right, from those of the retrieval (its score) and of the ranker.

    Neither weight is below 0, so that a higher score of one never makes a candidate worse.

    Args:
        candidates: how many of the first candidates are read.
    """

    candidates: int
    retrieval: float
    ranker: float
    intercept: float

    def score(self, retrieval: np.ndarray, ranker: np.ndarray) -> np.ndarray:
        """[P] of candidates [P]."""
        return self.retrieval * retrieval + self.ranker * ranker + self.intercept

    def to_json(self) -> dict[str, float]:
        """As a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RankerWeights:
        """What `to_json` gave.

        Raises:
            KeyError: it lacks a weight.
        """
        weights = (float(values[name]) for name in ("retrieval", "ranker", "intercept"))
        return cls(int(values["candidates"]), *weights)


class Reranker:
    """Puts the candidates of mentions in another order.

    Args:
        ranker: reads the pairs.
        entities: of the index that gave the candidates.
        candidates: how many each mention has, at most.
        weights_of: a mention's string -> how its candidates are scored.
        remembered: what the ranker said of pairs, which grows; None reads a pair anew in each call.
    """

    def __init__(
        self,
        ranker: Ranker,
        entities: EntityTable,
        candidates: int,
        weights_of: Callable[[str], RankerWeights],
        remembered: dict[tuple[str, str], float] | None = None,
    ) -> None:
        self.ranker = ranker
        self.entities = entities
        self.candidates = candidates
        self.weights_of = weights_of
        self._remembered = remembered

    def rerank(self, queries: Sequence[Query], found: Sequence[Sequence[Found]]) -> list[list[Found]]:
        """The candidates of each mention in their new order, with the scores that it follows from; of equal
        ones the first stays first.

        Raises:
            CheckpointError: the ranker gives a score that is no number.
        """
        answers = []
        for query, of, ranker in zip(queries, found, self.log_odds(queries, found), strict=True):
            scores = self.weights_of(query.text).score(np.array([one.score for one in of]), ranker)
            order = np.argsort(-scores, kind="stable").tolist()
            answers.append([replace(of[i], score=float(scores[i]), ranker=float(ranker[i])) for i in order])
        return answers

    def log_odds(self, queries: Sequence[Query], found: Sequence[Sequence[Found]]) -> list[np.ndarray]:
        """What the ranker says of each candidate of each mention; equal pairs are read once."""
        pairs = [list(self._pairs(query, of)) for query, of in zip(queries, found, strict=True)]
        known = {} if self._remembered is None else self._remembered
        new = [pair for pair in dict.fromkeys(pair for of in pairs for pair in of) if pair not in known]
        known.update(zip(new, self._score(new).tolist(), strict=True))
        return [np.array([known[pair] for pair in of]) for of in pairs]

    def _pairs(self, query: Query, found: Sequence[Found]) -> Iterator[tuple[str, str]]:
        for one in found:
            entity = self.entities[self.entities.numbers[one.entity_id]]
            yield query.read, entity_text(entity, one.matched)

    def _score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        scores = np.empty(len(pairs))
        if not pairs:
            return scores
        ranker = self.ranker
        ids = {text: ranker.subwords(text) for text in dict.fromkeys(text for pair in pairs for text in pair)}
        windows = [ranker.pair(ids[one], ids[other]) for one, other in pairs]
        lengths = np.array([ranker.length_of(window) for window in windows])
        for batch in forwards(np.arange(len(windows)), lengths, ranker.tokens_per_batch, ranker.forward_cost):
            scores[batch] = ranker.log_odds([windows[i] for i in batch]).cpu().numpy()
        return scores
