"""Approximate nearest neighbours through FAISS, with an effort that reaches a measured recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rayner.retrieval.faiss_library import load_faiss

Kind = Literal["ivf", "hnsw"]


@dataclass(frozen=True, slots=True)
class Approximate:
    """A FAISS index over the vectors of a dense side, and how hard it searches.

    Args:
        kind: inverted lists, or a graph.
        index: of L2 distance, which orders vectors of length 1 as the cosine does.
        effort: lists that are probed, or the length of the graph's candidate list.
        recall: the share of the ten true neighbours that it finds, measured when it was built.
    """

    kind: Kind
    index: Any
    effort: int
    recall: float

    def nearest(self, queries: np.ndarray, k: int) -> np.ndarray:
        """The rows [Q, k] of near vectors, best first; -1 where it found fewer."""
        faiss = load_faiss()
        effort = max(self.effort, k) if self.kind == "hnsw" else self.effort
        options = {"ivf": faiss.SearchParametersIVF, "hnsw": faiss.SearchParametersHNSW}[self.kind]
        named = {"nprobe": effort} if self.kind == "ivf" else {"efSearch": effort}
        return self.index.search(queries, min(k, self.index.ntotal), params=options(**named))[1]
