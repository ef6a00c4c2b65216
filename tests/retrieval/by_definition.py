"""Knowledge bases of a few letters, and the scores of their entities by the definition."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.losses.distances import Distance
from tests.retrieval.letters import Letters

PLAIN = IndexSettings(abbreviations=False)
names = st.text("abcdé Ωß-.", min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
bases = st.lists(st.lists(names, min_size=1, max_size=5), min_size=1, max_size=12)


def slow(
    base: Sequence[Entity], text: str, weight: float, distance: Distance, excluded: Sequence[str] = ()
) -> dict[str, float]:
    """The score of each entity, from the definition."""
    spaced = {e.entity_id: [" ".join(n.split()) for n in (e.name, *e.aliases) if n.strip()] for e in base}
    ngrams = TfidfVectorizer(analyzer="char_wb", ngram_range=PLAIN.ngrams)
    ngrams.fit([name for e in base for name in dict.fromkeys(spaced[e.entity_id])])
    query = Letters()([text])[0].astype(np.float64)
    scores = {}
    for id_, of_entity in spaced.items():
        vectors = Letters()(of_entity).astype(np.float64)
        if distance == "cosine":
            dense = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        else:
            far = np.linalg.norm(vectors - query, axis=1)
            dense = -far if distance == "euclidean" else -(far**2)
        lexical = (ngrams.transform([text]) @ ngrams.transform(of_entity).T).toarray()
        if id_ not in excluded:
            scores[id_] = lexical.max() if math.isinf(weight) else dense.max() + weight * lexical.max()
    return scores
