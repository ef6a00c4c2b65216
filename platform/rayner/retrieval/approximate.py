"""Approximate nearest neighbours through FAISS, with an effort that reaches a wanted recall.

The vectors in it are half-precision copies: what it finds is scored again from the vectors themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.retrieval import exact
from rayner.retrieval.faiss_library import load_faiss
from rayner.retrieval.kmeans import kmeans

Kind = Literal["ivf", "hnsw"]

NEIGHBOURS = 10
QUERIES = 1024
LEAST_SHARE, SHARE_OF_ONE = 0.08, 1.2
"""Vectors in lists are compared one after the other, in 88 ns for 384 dimensions in half precision; a product
of matrices takes 7 ns for each of all vectors, and once 106 ns more to read it (AMD EPYC)."""
SHARE_OF_ROUNDED = 0.5
"""Of that time, in bfloat16."""
_LINKS, _CONSTRUCTION = 32, 100
_MOST_CANDIDATES = 1024
_ROUNDING = 1e-5
_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Approximate:
    """A FAISS index over the vectors of a dense side, and how hard it searches.

    Args:
        kind: inverted lists, or a graph.
        index: of L2 distance, which orders vectors of length 1 as the cosine does.
        effort: lists that are probed, or the length of the graph's candidate list.
        recall: the share of the true nearest ten that it finds with this effort, measured when it was built.
    """

    kind: Kind
    index: Any
    effort: int
    recall: float

    def is_slower(self, queries: int, rounded: bool = False) -> bool:
        """Whether comparing so many queries with all vectors takes less time: where many lists are probed.

        Args:
            rounded: whether they are compared in bfloat16, on a processor that is faster in it.
        """
        share = self.effort / self.index.nlist if self.kind == "ivf" else 0.0
        whole = LEAST_SHARE * queries + SHARE_OF_ONE
        return share * queries > whole * (SHARE_OF_ROUNDED if rounded else 1.0)

    def nearest(self, queries: np.ndarray, k: int) -> np.ndarray:
        """The rows [Q, k] of near vectors, best first; -1 where it found fewer."""
        faiss, k = _checked(), min(k, self.index.ntotal)
        if self.kind == "ivf":
            options = faiss.SearchParametersIVF(nprobe=self.effort)
        else:
            options = faiss.SearchParametersHNSW(efSearch=max(self.effort, k))
        return self.index.search(queries, k, params=options)[1]


def build_approximate(
    vectors: np.ndarray, kind: Kind, recall: float, normalized: bool, share: exact.Share = exact.alone
) -> Approximate:
    """Build the structure, then raise its effort until it finds the share `recall` of true neighbours.

    Recall is measured on copies of vectors that are moved by half their length in a random direction, as a
    mention lies beside a name. Where no effort suffices it is the largest, with the recall that it has.

    Args:
        vectors: [M, D] float32; queries are of length 1 where they are `normalized`.
        share: how products of matrices are done; who shares them has the same vectors and gets the same.
    """
    index = _lists(vectors, share) if kind == "ivf" else _graph(vectors)
    queries = _queries(vectors, normalized)
    table = torch.as_tensor(vectors)
    true = exact.nearest_rows(queries, table, exact.half_squares(table), NEIGHBOURS, share).numpy()
    asked = queries.numpy()
    most = index.nlist if kind == "ivf" else min(_MOST_CANDIDATES, len(vectors))
    effort = 1 if kind == "ivf" else 16
    while True:
        built = Approximate(kind, index, min(effort, most), 0.0)
        found = measure_recall(built.nearest(asked, true.shape[1]), true, asked, vectors)
        if found >= recall or effort >= most:
            return Approximate(kind, index, built.effort, found)
        effort *= 2


def measure_recall(found: np.ndarray, true: np.ndarray, queries: np.ndarray, vectors: np.ndarray) -> float:
    """The share of the true neighbours that are among those found.

    What is found counts where it is no farther than the last of the true ones: of equal vectors, as a name of
    several entities has, it does not matter which are called the true neighbours.

    Args:
        found: [Q, n] rows of `vectors`, -1 for none.
        true: [Q, k], the nearest first.
        queries: [Q, D].
    """
    farthest = np.linalg.norm(queries - vectors[true[:, -1]], axis=1) * (1 + _ROUNDING) + _ROUNDING
    within = np.zeros(len(queries), int)
    for place in range(found.shape[1]):
        rows = found[:, place]
        within += (rows >= 0) & (np.linalg.norm(queries - vectors[rows], axis=1) <= farthest)
    return float(np.minimum(within / true.shape[1], 1).mean())


def write_approximate(approximate: Approximate, path: str) -> None:
    """Write the FAISS index."""
    load_faiss().write_index(approximate.index, path)


def read_approximate(path: str, kind: Kind, effort: int, recall: float) -> Approximate:
    """The FAISS index of a file; the inverted lists stay there until they are probed.

    Raises:
        FileNotFoundError: there is none.
    """
    faiss = load_faiss()
    if not Path(path).exists():
        raise FileNotFoundError(path)
    index = faiss.read_index(path, faiss.IO_FLAG_MMAP if kind == "ivf" else 0)
    return Approximate(kind, index, effort, recall)


@cache
def _checked() -> Any:
    # Looking for two builds takes longer than a search does.
    return load_faiss()


def _lists(vectors: np.ndarray, share: exact.Share) -> Any:
    faiss = load_faiss()
    rows, size = vectors.shape
    lists = max(1, min(2 ** round(math.log2(2 * math.sqrt(rows))), rows))
    table = torch.as_tensor(vectors)
    centroids = kmeans(table, lists, share)
    quantizer = faiss.IndexFlatL2(size)
    quantizer.add(centroids.numpy())
    kind = faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexIVFScalarQuantizer(quantizer, size, lists, kind, faiss.METRIC_L2, False)
    index.is_trained = True
    # FAISS assigns vectors to lists without BLAS; the product of matrices is ten times as fast.
    nearest = exact.nearest_rows(table, centroids, exact.half_squares(centroids), 1, share).numpy()[:, 0]
    for begin in range(0, rows, _BLOCK):
        block = np.ascontiguousarray(vectors[begin : begin + _BLOCK])
        of_block, ids = nearest[begin : begin + _BLOCK].copy(), np.arange(begin, begin + len(block))
        index.add_core(len(block), faiss.swig_ptr(block), faiss.swig_ptr(ids), faiss.swig_ptr(of_block))
    return index


def _graph(vectors: np.ndarray) -> Any:
    faiss = load_faiss()
    index = faiss.IndexHNSWSQ(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, _LINKS, faiss.METRIC_L2)
    index.hnsw.efConstruction = _CONSTRUCTION
    index.train(vectors[:1])
    for begin in range(0, len(vectors), _BLOCK):
        index.add(np.ascontiguousarray(vectors[begin : begin + _BLOCK]))
    return index


def _queries(vectors: np.ndarray, normalized: bool) -> Tensor:
    rng = np.random.default_rng(0)
    chosen = torch.as_tensor(vectors[np.sort(rng.choice(len(vectors), min(QUERIES, len(vectors)), False))])
    noise = torch.as_tensor(rng.normal(size=chosen.shape), dtype=torch.float32)
    moved = chosen + F.normalize(noise, dim=1) * chosen.norm(dim=1, keepdim=True) / 2
    return F.normalize(moved, dim=1) if normalized else moved
