"""What candidate contexts cost: all methods for a whole novel, beside BM25 fitted for each sentence.

    PYTHONPATH=platform RAYNER_DATA=DATA python -m benchmarks.context_candidates --novel TheWayWeLiveNow

Seconds are wall time. `dense` is given vectors of 384 dimensions that are sums of a random vector a word, so
that its seconds are those of the search; `loop` is the formula of BM25 in plain Python, as the published code
has it, for a sample of the sentences, and what that makes for all.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from rayner.data.sentences import split_sentences
from rayner.errors import InputError
from rayner.retrieval.bm25 import count_words
from rayner.retrieval.contexts import context_methods, find_contexts
from rayner.retrieval.document_sentences import DocumentSentences

METHODS = ("before", "after", "surrounding", "bm25", "same_noun", "dense", "random")
DIMENSIONS = 384


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--novel", default="TheWayWeLiveNow", help="a file of dekker-full-novels")
    parser.add_argument("--count", type=int, default=16, help="candidates of each method")
    parser.add_argument("--sample", type=int, default=3, help="sentences for which the loop is timed")
    add_out(parser, "context_candidates")
    options = parser.parse_args()
    text = read_novel(options.novel)
    spans, seconds = timed(lambda: split_sentences(text))
    rows: list[dict[str, Any]] = [{"step": "split", "seconds": seconds}]
    sentences, seconds = timed(lambda: DocumentSentences([text[start:end] for start, end in spans]))
    rows.append({"step": "words", "seconds": seconds})
    methods = context_methods(METHODS, encode=lambda _: vectors_of(sentences))
    for name, method in methods.items():
        found, seconds = timed(lambda one={name: method}: find_contexts(sentences, one, options.count))
        rows.append({"step": name, "seconds": seconds, "candidates": sum(map(len, found))})
    found, seconds = timed(lambda: find_contexts(sentences, methods, options.count))
    rows.append({"step": "all methods", "seconds": seconds, "candidates": sum(map(len, found))})
    asked = random.Random(0).sample(range(len(sentences)), options.sample)
    _, seconds = timed(lambda: [loop(sentences.words, query, options.count) for query in asked])
    rows.append(
        {
            "step": "loop",
            "seconds": seconds,
            "sentences": options.sample,
            "seconds_for_all": round(seconds / options.sample * len(sentences), 1),
        }
    )
    about = {
        "novel": options.novel,
        "characters": len(text),
        "sentences": len(sentences),
        "distinct": len(sentences.first),
        "words": sum(map(len, sentences.words)),
        "count": options.count,
        "cores": len(os.sched_getaffinity(0)),
    }
    record(
        "context_candidates",
        options.out,
        title="Candidate contexts of a whole novel",
        section="Context",
        task="all",
        conditions=f"{options.novel}: {len(text):,} characters, {len(sentences):,} sentences, for "
        f"each {options.count} candidates of each method. `loop` fits BM25 a sentence, as published.",
        rows=measured(rows, {"seconds": "s", "seconds_for_all": "s"}),
    )
    print(json.dumps({**about, "rows": rows}))


def read_novel(name: str) -> str:
    """The text of a novel."""
    path = Path(os.environ.get("RAYNER_DATA", "")) / "dekker-full-novels" / f"{name}.txt.gz"
    if not path.is_file():
        raise InputError(str(path), "is not there", "set RAYNER_DATA, and name a file of dekker-full-novels")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return file.read()


def vectors_of(sentences: DocumentSentences) -> np.ndarray:
    """A vector for each distinct sentence."""
    counts: Any = count_words([sentences.words[int(place)] for place in sentences.first], case=True)
    of_words = np.random.default_rng(0).standard_normal((counts.shape[1], DIMENSIONS), dtype=np.float32)
    return counts.astype(np.float32) @ of_words


def timed(step: Callable[[], Any]) -> tuple[Any, float]:
    """What a step gives, and its seconds."""
    begun = time.perf_counter()
    given = step()
    return given, round(time.perf_counter() - begun, 2)


def loop(sentences: Sequence[Sequence[str]], query: int, count: int) -> list[int]:
    """BM25Okapi fitted on all sentences for one query: the best `count`, the query left out."""
    counts = [Counter(words) for words in sentences]
    having = Counter(word for of_one in counts for word in of_one)
    idf = {w: math.log(len(sentences) - n + 0.5) - math.log(n + 0.5) for w, n in having.items()}
    floor = 0.25 * sum(idf.values()) / len(idf)
    mean = sum(map(len, sentences)) / len(sentences)
    scores = []
    for words, of_one in zip(sentences, counts, strict=True):
        slowed = 1.5 * (0.25 + 0.75 * len(words) / mean)
        score = 0.0
        for word in sentences[query]:
            weight = idf[word] if idf[word] >= 0 else floor
            score += weight * of_one[word] * 2.5 / (of_one[word] + slowed)
        scores.append(score)
    scores[query] = -1.0
    return sorted(range(len(scores)), key=lambda place: -scores[place])[:count]


if __name__ == "__main__":
    call_main(main)
