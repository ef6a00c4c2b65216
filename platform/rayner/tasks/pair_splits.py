"""Reading and splitting pairs of a sentence and a context, and the answer to one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from rayner.config import PairSettings
from rayner.config.recipe_files import corpus_paths
from rayner.data.schema import Document
from rayner.data.split import parts_by
from rayner.errors import CorpusError
from rayner.supervision.context_rows import ContextRow, read_context_rows

log = logging.getLogger(__name__)


class Relevance(NamedTuple):
    """The answer to a pair: a score from 0 to 1, whether it counts as relevant, and the sub-words of the pair
    that were not read."""

    score: float
    relevant: bool
    cut: int = 0


def split_pairs(pairs: PairSettings, part: Literal["train", "dev"]) -> Sequence[ContextRow]:
    """The pairs of a split; none of dev where there is none.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: a file without pairs, a split that would be empty, or training pairs that are all
            relevant, or none of them.
    """
    if part == "dev" and pairs.dev:
        return read_pairs(corpus_paths(pairs.dev, "pairs.dev"))[0]
    if part == "dev" and not pairs.dev_fraction:
        return []
    rows = read_pairs(corpus_paths(pairs.train, "pairs.train"))[0]
    if pairs.dev_fraction:
        rows = _of_part(rows, part, pairs.dev_fraction)
    if part == "train" and len(answers := {row.relevant for row in rows}) < 2:
        what = f"{'all' if answers.pop() else 'none'} of its {len(rows)} pairs are relevant"
        raise CorpusError("pairs.train", what, "give pairs of both kinds: a ranker learns to tell them apart")
    return rows


def _of_part(rows: Sequence[ContextRow], part: str, dev: float) -> Sequence[ContextRow]:
    fractions = {"train": 1 - dev, "dev": dev}
    try:
        parts = parts_of_pairs(rows, fractions, 0)
    except CorpusError as error:
        hint = "give more pairs, another fraction, or a file of them as pairs.dev"
        raise CorpusError("pairs.dev_fraction", error.what, hint) from None
    chosen = parts == list(fractions).index(part)
    return [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]


def read_pairs(paths: Sequence[Path]) -> tuple[list[ContextRow], int]:
    """The pairs of files, and how many lines are none.

    Raises:
        CorpusError: there are no pairs.
    """
    rows: list[ContextRow] = []
    rejects = []
    for path in paths:
        found = read_context_rows(path)
        rows += found.rows
        rejects += found.rejects
    if not rows:
        where, what, hint = ", ".join(map(str, paths)), "holds no pair", "write one JSON object a line"
        if rejects:
            where, what, hint = rejects[0].where, rejects[0].what, rejects[0].hint
        raise CorpusError(where, what, hint)
    if rejects:
        _say_once(f"{len(rejects)} lines are no pair; the first: {rejects[0].where}: {rejects[0].what}")
    return rows, len(rejects)


@cache
def _say_once(message: str) -> None:
    log.warning(message)


def together(pair: ContextRow) -> str:
    """What a split must not cut."""
    return pair.group if pair.group is not None else " ".join(pair.sentence.split())


def parts_of_pairs(pairs: Iterable[ContextRow], fractions: Mapping[str, float], seed: int) -> np.ndarray:
    """The number of the part of each pair; no group and no sentence is cut."""
    keys = [together(pair) for pair in pairs]
    return parts_by([Document(key, key, group=key) for key in keys], fractions, seed)
