"""The dense side of an index beside FAISS as it comes: build time, memory, queries a second, recall.

    python -m benchmarks.index_speed --vectors 407600 1000000

Vectors are synthetic: members of clusters within clusters, queries are members that were moved by half their
length. All methods run in one process on one thread; times are CPU seconds. Recall is of the ten nearest.

The last rows are of the whole search: made-up names beside these vectors, asked by misspelled names, by
the sum of both scores. Their recall is of the 64 highest sums, over all names.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import faiss
import numpy as np
import torch

from benchmarks.figures import add_out, measured, record
from benchmarks.meter import Meter
from benchmarks.synthetic_index import made_up_names
from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.retrieval.approximate import build_approximate, measure_recall
from rayner.retrieval.build import build_index
from rayner.retrieval.candidates import POOL
from rayner.retrieval.dense import DenseSide
from rayner.retrieval.entity_index import EntityIndex

DIMENSIONS = 384
QUERIES = 1000
SLOW_QUERIES = 64
SINGLE = 20
K = 10
RECALL = 0.99
TOGETHER, DEEP, WEIGHT = 100, 64, 1.0
BLOCK = 65_536

CONDITIONS = {
    "all": """Clustered synthetic vectors of 384 dimensions, top 10; FAISS in the same process, on one thread;
times are of the CPU.""",
    "whole": """Made-up names of two words, a vector of 384 dimensions for each; asked by 100 misspelled names
together, then by 20 of them one by one, on one thread; times are of the CPU. Recall is of the 64 highest
sums of both sides' scores, over all names.""",
}
HEADLINES = (f"rayner ivf, recall {RECALL}", "vectors and n-grams, search: auto")
UNITS = {
    "build_seconds": "s",
    "build_peak_mb": "MB",
    "search_peak_mb": "MB",
    "queries_per_second": "queries/s",
    "single_query_ms": "ms",
    "recall": "%",
    "ratio_to_dense_product": "x",
}

Search = Callable[[np.ndarray], np.ndarray]
log = logging.getLogger("index_speed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each method and number of vectors."""
    parser = argparse.ArgumentParser(description="Rows of the table of index speeds, as JSON.")
    parser.add_argument("--vectors", type=int, nargs="+", default=[407_600, 1_000_000])
    parser.add_argument("--hnsw", action="store_true", help="also graphs, which take minutes to build")
    parser.add_argument("--whole", action="store_true", help="the whole search alone, not its dense side")
    add_out(parser, "index_speed")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.INFO)
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    rows = []
    for number in chosen.vectors:
        rows += [] if chosen.whole else measure(number, chosen.hnsw)
        rows += whole_search(number)
    record(
        "index_speed",
        chosen.out,
        title=f"Search among {' and '.join(f'{number:,}' for number in chosen.vectors)} "
        + ("names" if chosen.whole else "vectors"),
        section="Linking",
        task="standardizer",
        conditions=CONDITIONS["whole" if chosen.whole else "all"].replace("\n", " "),
        rows=measured(
            rows, UNITS, headline="queries_per_second", where=lambda row: row["method"] in HEADLINES
        ),
    )
    print(json.dumps({"rows": rows}))


def measure(number: int, hnsw: bool) -> list[dict[str, Any]]:
    """The rows of so many vectors."""
    vectors, queries = clustered(number)
    log.info("%d vectors, %.0f MB", number, vectors.nbytes / 2**20)
    true = ours(vectors, None)(queries)
    rows = [row("rayner exact", vectors, queries, true, lambda: None, lambda _: ours(vectors, None))]
    rows.append(
        row("FAISS flat, default", vectors, queries[:SLOW_QUERIES], true, lambda: flat(vectors), theirs)
    )
    kinds: list[Literal["ivf", "hnsw"]] = ["ivf", "hnsw"] if hnsw else ["ivf"]
    for kind in kinds:

        def build(kind: Literal["ivf", "hnsw"] = kind) -> Any:
            return build_approximate(vectors, kind, RECALL, normalized=True)

        name = f"rayner {kind}, recall {RECALL}"
        rows.append(row(name, vectors, queries, true, build, lambda built: ours(vectors, built)))
        rule = {"ivf": "IVF1024,Flat", "hnsw": "HNSW32"}[kind]

        def default(rule: str = rule) -> Any:
            index = faiss.index_factory(DIMENSIONS, rule, faiss.METRIC_INNER_PRODUCT)
            index.train(vectors)
            index.add(vectors)
            return index

        rows.append(row(f"FAISS {rule}, default", vectors, queries, true, default, theirs))
    return rows


def whole_search(number: int) -> list[dict[str, Any]]:
    """The rows of searches by vectors and n-grams, of `search: auto` and of `search: exact`."""
    names = made_up_names(number)
    vectors = of_words(names)
    asked = np.arange(TOGETHER) * (number // TOGETHER)
    texts = [names[i][:3] + names[i][4:] for i in asked]
    queries = moved(vectors[asked])
    entities = [Entity(f"e{number}", name) for number, name in enumerate(names)]
    index = build_index(entities, lambda _: vectors, IndexSettings(), "cosine")
    meter, product = Meter("cpu", "float32"), ours(vectors, None)
    product(queries[:2])
    dense = meter.seconds(lambda: product(queries))
    exactly = IndexSettings(search="exact")
    exact_dense = DenseSide(vectors, "cosine", device="cpu")
    whole = EntityIndex(index.entities, index.names, exact_dense, index.lexical, {}, exactly)
    true = _highest_sums(index, texts, queries)
    rows = []
    for kind, searched in (("auto", index), ("exact", whole)):

        def ask(rows: slice, k: int = K, searched: EntityIndex = searched) -> list[list[str]]:
            found = searched.search(texts[rows], queries[rows], k, WEIGHT)
            return [[f.entity_id for f in of] for of in found]

        ask(slice(2))
        batch = meter.seconds(lambda ask=ask: ask(slice(None)))
        single = meter.seconds(lambda ask=ask: [ask(slice(i, i + 1)) for i in range(SINGLE)])
        found = ask(slice(None), DEEP)
        shared = [len(set(of) & right) / DEEP for of, right in zip(found, true, strict=True)]
        rows.append(
            {
                "method": f"vectors and n-grams, search: {kind}",
                "vectors": len(vectors),
                "queries_per_second": round(len(queries) / batch, 1),
                "single_query_ms": round(1000 * single / SINGLE, 2),
                "recall": round(float(np.mean(shared)), 4),
                "ratio_to_dense_product": round(batch / dense, 2),
            }
        )
        log.info("%s", rows[-1])
    return rows


def _highest_sums(index: EntityIndex, texts: Sequence[str], queries: np.ndarray) -> list[set[str]]:
    found = []
    for text, query in zip(texts, queries, strict=True):
        sums = index.dense.vectors @ query + WEIGHT * index.lexical.scores([text])[0]
        found.append({f"e{number}" for number in np.argpartition(-sums, DEEP)[:DEEP]})
    return found


def row(
    name: str,
    vectors: np.ndarray,
    queries: np.ndarray,
    true: np.ndarray,
    build: Callable[[], Any],
    search_of: Callable[[Any], Search],
) -> dict[str, Any]:
    """Build once and search once, in CPU seconds; memory beside the vectors themselves."""
    meter, built, seconds = Meter("cpu", "float32"), [], []

    def timed() -> None:
        begin = time.process_time()
        built.append(build())
        seconds.append(time.process_time() - begin)

    memory = meter.peak_mb(timed)
    search = search_of(built[0])
    search(queries[:2])
    found: list[np.ndarray] = []
    batch = meter.seconds(lambda: found.append(search(queries)))
    single = meter.seconds(lambda: [search(queries[i : i + 1]) for i in range(SINGLE)])
    measured = {
        "method": name,
        "vectors": len(vectors),
        "build_seconds": round(seconds[0], 1),
        "build_peak_mb": round(memory),
        "search_peak_mb": round(meter.peak_mb(lambda: search(queries))),
        "queries_per_second": round(len(queries) / batch, 1),
        "single_query_ms": round(1000 * single / SINGLE, 2),
        "recall": round(measure_recall(found[0], true[: len(queries)], queries, vectors), 4),
        "effort": getattr(built[0], "effort", None),
    }
    log.info("%s", measured)
    return measured


def ours(vectors: np.ndarray, approximate: Any) -> Search:
    """The ten nearest by the dense side, exactly scored again as the index does."""
    dense = DenseSide(vectors, "cosine", approximate, device="cpu")

    def search(queries: np.ndarray) -> np.ndarray:
        prepared = dense.prepare(queries)
        if approximate is None:
            return dense.nearest(prepared, K)
        near = dense.nearest(prepared, POOL)
        query = np.repeat(np.arange(len(near)), near.shape[1])
        scores = dense.similarities(prepared, query, np.maximum(near, 0).ravel()).reshape(near.shape)
        order = np.argsort(np.where(near < 0, np.inf, -scores), axis=1)[:, :K]
        return np.take_along_axis(near, order, 1)

    return search


def flat(vectors: np.ndarray) -> Any:
    """FAISS's exact search."""
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(vectors)
    return index


def theirs(index: Any) -> Search:
    """The ten nearest by a FAISS index."""
    return lambda queries: index.search(queries, K)[1]


def clustered(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors in 5,000 clusters of 100 topics, and queries beside some of them."""
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(100, DIMENSIONS)).astype(np.float32)
    clusters = topics[rng.integers(0, 100, 5000)] + 0.7 * _noise(rng, 5000)
    vectors = np.empty((number, DIMENSIONS), np.float32)
    for begin in range(0, number, BLOCK):
        block = vectors[begin : begin + BLOCK]
        block[:] = clusters[rng.integers(0, 5000, len(block))] + 0.5 * _noise(rng, len(block))
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return vectors, moved(vectors[rng.integers(0, number, QUERIES)])


def of_words(names: Sequence[str]) -> np.ndarray:
    """Unit vectors of names: names that share a word are near each other."""
    rng = np.random.default_rng(3)
    words: dict[str, int] = {}
    of_name = np.array([[words.setdefault(word, len(words)) for word in name.split()] for name in names])
    of_word = _noise(rng, len(words))
    vectors = np.empty((len(names), DIMENSIONS), np.float32)
    for begin in range(0, len(names), BLOCK):
        block = vectors[begin : begin + BLOCK]
        block[:] = of_word[of_name[begin : begin + BLOCK]].sum(1) + _noise(rng, len(block))
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return vectors


def moved(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors at half the length of these in a random direction."""
    noise = _noise(np.random.default_rng(4), len(vectors))
    queries = vectors + noise / np.linalg.norm(noise, axis=1, keepdims=True) / 2
    return queries / np.linalg.norm(queries, axis=1, keepdims=True)


def _noise(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.standard_normal((rows, DIMENSIONS), np.float32)


if __name__ == "__main__":
    main()
