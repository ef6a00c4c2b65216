"""New entities proposed for mentions that none of the knowledge base's entities fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import AgglomerativeClustering
from sklearn.feature_extraction.text import TfidfVectorizer

from rayner.data.mention_strings import fold, normal_form
from rayner.tasks.standardizer.predictor import Answer

LEAST_SIMILARITY = 0.4
MOST_TOGETHER = 8000
"""Strings that are clustered at once: their similarities are a square matrix."""
_CELLS = 2**22
"""Similarities in memory at a time, while parts are sought."""
_TIGHTER = 0.05


@dataclass(frozen=True, slots=True)
class Proposal:
    """A new entity: `names` are its strings with how often each was mentioned, most frequent first.

    `nearest` are id, name and score of the entity that came nearest.
    """

    names: tuple[tuple[str, int], ...]
    nearest: tuple[str, str, float] | None

    def to_row(self, entity_id: str) -> dict[str, Any]:
        """As an entity of a knowledge base in JSON lines, and what speaks for it."""
        (name, _), *others = self.names
        row: dict[str, Any] = {
            "entity_id": entity_id,
            "name": name,
            "aliases": [alias for alias, _ in others],
        }
        row["mentions"] = sum(count for _, count in self.names)
        row["nearest"] = None
        if self.nearest is not None:
            row["nearest"] = dict(zip(("entity_id", "name", "score"), self.nearest, strict=True))
        return row


def propose(
    answers: Sequence[Answer],
    encode: Callable[[Sequence[str]], np.ndarray],
    least_similarity: float = LEAST_SIMILARITY,
) -> list[Proposal]:
    """Cluster the mentions judged NIL; the most frequent proposals first.

    Clusters have a mean similarity of at least `least_similarity` (average linkage); the similarity of two
    strings is the mean of the cosines of their vectors and of their character n-grams. Strings that differ
    by case or spaces are one. Mentions without any candidate (empty, say) propose nothing.

    Args:
        encode: texts -> [N, D].
        least_similarity: between 0 and 1; higher makes more and smaller clusters.
    """
    counts: Counter[str] = Counter()
    forms: dict[str, Counter[str]] = {}
    nearest: dict[str, Answer] = {}
    for answer in answers:
        if answer.entity_id is None and answer.candidates:
            form = normal_form(answer.text)
            counts[fold(form)] += 1
            forms.setdefault(fold(form), Counter())[form] += 1
            nearest.setdefault(fold(form), answer)
    keys = list(counts)
    texts = [forms[key].most_common(1)[0][0] for key in keys]
    proposals = []
    for rows in cluster(texts, encode, least_similarity):
        named = sorted(((texts[i], counts[keys[i]]) for i in rows), key=lambda pair: (-pair[1], pair[0]))
        best = max((nearest[keys[i]].candidates[0] for i in rows), key=lambda found: found.score)
        proposals.append(Proposal(tuple(named), (best.entity_id, best.name, best.score)))
    return sorted(proposals, key=lambda p: (-sum(count for _, count in p.names), p.names[0][0]))


def cluster(
    texts: Sequence[str], encode: Callable[[Sequence[str]], np.ndarray], least_similarity: float
) -> list[list[int]]:
    """Rows of different strings that belong together."""
    if not texts:
        return []
    vectors = np.asarray(encode(texts), np.float32)
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    grams = csr_array(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(texts))

    def similarity(some: np.ndarray, others: np.ndarray) -> np.ndarray:
        return (vectors[some] @ vectors[others].T + (grams[some] @ grams[others].T).toarray()) / 2

    clusters = []
    for rows in _parts(np.arange(len(texts)), similarity, least_similarity):
        if len(rows) == 1:
            clusters.append(rows.tolist())
            continue
        model = AgglomerativeClustering(
            n_clusters=None,  # pyright: ignore[reportArgumentType]
            metric="precomputed",
            linkage="average",
            distance_threshold=1 - least_similarity,
        )
        labels = model.fit_predict(np.maximum(1 - similarity(rows, rows), 0))
        clusters += [rows[labels == label].tolist() for label in range(labels.max() + 1)]
    return clusters


def _parts(rows: np.ndarray, similarity: Callable[..., np.ndarray], least: float) -> Iterator[np.ndarray]:
    """Rows that a chain of pairs at least so similar joins.

    No cluster reaches beyond one: joining two clusters of that mean similarity takes such a pair. Only parts
    too large for a matrix are cut where they are less similar than was asked for.
    """
    labels, step = np.arange(len(rows)), max(1, _CELLS // len(rows))
    for begin in range(0, len(rows), step):
        near = similarity(rows[begin : begin + step], rows[begin:]) >= least
        # Not kept until the end: strings that are all alike have pairs without number.
        labels = _joined(labels, *(places + begin for places in np.nonzero(near)))
    order = np.argsort(labels, kind="stable")
    for part in np.split(order, np.cumsum(np.bincount(labels))[:-1]):
        if len(part) <= MOST_TOGETHER:
            yield rows[part]
        elif least < 1:
            yield from _parts(rows[part], similarity, least + _TIGHTER)
        else:
            yield from np.array_split(rows[part], -(-len(part) // MOST_TOGETHER))


def _joined(labels: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The groups [N] of rows, from 0 by the first row of each, with those of each pair of rows [P] as one."""
    pairs = np.ones(len(one), bool), (labels[one], labels[other])
    graph = coo_array(pairs, shape=(len(labels), len(labels)))
    return connected_components(graph, directed=False)[1][labels]
