"""Candidate contexts of a sentence: other sentences of its document that may help to read it.

Amalvy et al. 2023 (EMNLP), "Learning to Rank Context for Named Entity Recognition Using a Synthetic Dataset",
section 4: so many candidates of each method, those with the same text once; a ranker then chooses among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rayner.errors import InputError
from rayner.retrieval.bm25 import bm25
from rayner.retrieval.context_methods import Encode, after, before, dense, random, surrounding
from rayner.retrieval.document_sentences import DocumentSentences, Method
from rayner.retrieval.nouns import noun_tagger
from rayner.retrieval.same_noun import Tagger, same_noun

PAPER_METHODS = ("bm25", "same_noun", "before", "after")


class Candidate(NamedTuple):
    """A sentence by its number, its score by the method that found it first, and that method."""

    sentence: int
    score: float
    method: str


def context_methods(
    names: Sequence[str] = PAPER_METHODS,
    *,
    seed: int = 0,
    case: bool = True,
    nouns: Tagger | None = None,
    encode: Encode | None = None,
) -> dict[str, Method]:
    """The methods of these names: before, after, surrounding, bm25, same_noun, dense, random.

    Args:
        seed: of `same_noun` and `random`.
        case: whether words that differ in case differ, for `bm25` and `same_noun`.
        nouns: the tagger of `same_noun`; None is `light`.
        encode: texts to vectors, for `dense`.

    Raises:
        InputError: an unknown method, or `dense` without `encode`.
    """
    methods: dict[str, Method] = {
        "before": before,
        "after": after,
        "surrounding": surrounding,
        "bm25": bm25(case=case),
        "same_noun": same_noun(nouns or noun_tagger()[1], seed, case=case),
        "random": random(seed),
    }
    if encode is not None:
        methods["dense"] = dense(encode)
    for name in names:
        if name == "dense" and encode is None:
            raise InputError("method dense", "has no encoder", "give one, or leave the method out")
        if name not in methods:
            known = ", ".join((*methods, "dense"))
            raise InputError(f"method {name}", "is not known", f"the methods are {known}")
    return {name: methods[name] for name in names}


def find_contexts(
    sentences: DocumentSentences,
    methods: Mapping[str, Method],
    count: int,
    queries: Sequence[int] | None = None,
) -> list[list[Candidate]]:
    """The candidates of each query: up to `count` of each method, in the order of the methods, best first.

    None has the text of the query or of another candidate; where methods find the same text, the first keeps
    it.

    Args:
        queries: numbers of sentences; None is all.

    Raises:
        InputError: `count` below 1, or a query that is no sentence.
    """
    asked = np.arange(len(sentences)) if queries is None else np.array(queries, dtype=np.int64)
    if count < 1:
        raise InputError("contexts", f"{count} candidates of each method", "ask for at least 1")
    if len(asked) and not 0 <= asked.min() <= asked.max() < len(sentences):
        raise InputError("contexts", f"a query outside the {len(sentences)} sentences", "count from 0")
    kept: dict[int, dict[int, Candidate]] = {query: {} for query in asked.tolist()}
    text_of = sentences.text_of.tolist()
    for name, method in methods.items():
        found = method(sentences, np.unique(asked), count)
        columns = (found.sentence.tolist(), found.context.tolist(), found.score.tolist())
        for query, context, score in zip(*columns, strict=True):
            kept[query].setdefault(text_of[context], Candidate(context, score, name))
    return [list(kept[query].values()) for query in asked.tolist()]
