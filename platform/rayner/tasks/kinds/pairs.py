"""Pairs of a sentence and a context, which is relevant to it or not."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rayner.config import PairSettings, RankerRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.data.schema import Document
from rayner.errors import CorpusError
from rayner.metrics.ranking import relevance_intervals
from rayner.supervision.context_rows import ContextRow, read_context_rows, row_to_json
from rayner.tasks.base import Mode, Predictor
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, Source, lines_file, parts_by

log = logging.getLogger(__name__)

_SCHEMA = pa.schema(
    [
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("context", pa.string(), nullable=False),
        ("relevant", pa.bool_()),
        ("entities", pa.list_(pa.string())),
        ("group", pa.string()),
        ("score", pa.float64()),
        ("found", pa.bool_()),
        ("cut", pa.int64()),
    ]
)


class Relevance(NamedTuple):
    """The answer to a pair: a score from 0 to 1, whether it counts as relevant, and the sub-words of the pair
    that were not read."""

    score: float
    relevant: bool
    cut: int = 0


class Pairs:
    """Pairs, scored by whether they are taken for relevant."""

    name = "pairs"
    metrics: Mapping[str, Mode] = {
        **dict.fromkeys(("accuracy", "f1", "precision", "recall"), "max"),
        "mse": "min",
    }
    evaluation_options: Mapping[str, Any] = {}

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: RankerRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
    ) -> GoldItems:
        """The pairs of JSONL files; the notes have `rejected`, lines that are none."""
        rows, rejected = _read(paths)
        return GoldItems(rows, {"rejected": rejected})

    def scored(self, item: Any) -> Any:
        """All of it."""
        return item

    def intervals(
        self, gold: Sequence[ContextRow], predicted: Sequence[Relevance], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Over groups of pairs."""
        return relevance_intervals(
            [pair.relevant for pair in gold],
            [answer.score for answer in predicted],
            [_together(pair) for pair in gold],
        )

    def curves(self, gold: Sequence[ContextRow], predicted: Sequence[Relevance]) -> dict[str, Any]:
        """None."""
        return {}

    def to_tables(self, gold: Sequence[ContextRow], predicted: Sequence[Relevance]) -> dict[str, pa.Table]:
        """`pairs`, each with its answer."""
        rows = [
            {**asdict(pair), "score": answer.score, "found": answer.relevant, "cut": answer.cut}
            for pair, answer in zip(gold, predicted, strict=True)
        ]
        return {"pairs": pa.Table.from_pylist(rows, _SCHEMA)}

    def from_tables(self, tables: Mapping[str, pa.Table]) -> tuple[list[ContextRow], list[Relevance]]:
        """What `to_tables` was given."""
        gold, answers = [], []
        for row in tables["pairs"].to_pylist():
            answers.append(Relevance(row.pop("score"), row.pop("found"), row.pop("cut")))
            gold.append(ContextRow(**row | {"entities": tuple(row["entities"] or ())}))
        return gold, answers

    def card(self, recipe: RankerRecipe) -> Card:
        """How to choose contexts with it."""
        pairs = recipe.pairs
        held_out = f"{pairs.dev_fraction:.0%} of the pairs, by group or sentence"
        return Card(
            train=pairs.train,
            dev=pairs.dev or ((held_out,) if pairs.dev_fraction else ()),
            about=[
                "## Contexts",
                "",
                "It says how much another sentence helps to read a sentence, from 0 to 1. Name it as",
                "`context.ranker` in the recipe of a recognizer or tagger, or as a pipeline's first stage.",
            ],
            commands=[f"rayner evaluate {FOLDER} pairs.jsonl"],
            python=[
                "from rayner.supervision.context_rows import ContextRow",
                'pair = ContextRow("Ada wrote.", "Ada Lovelace was a mathematician.", True)',
                f'answers = rayner.load("{FOLDER}").predict([pair])',
            ],
        )

    def source(self, recipe: RankerRecipe) -> Source:
        """Pairs, of which no group and no sentence is cut."""
        return Source(
            section="pairs",
            items=lambda: _read(corpus_paths(recipe.pairs.train, "pairs"))[0],
            parts=_parts,
            writing=lines_file(row_to_json),
            suffix=".jsonl",
        )


def split_pairs(pairs: PairSettings, part: Literal["train", "dev"]) -> Sequence[ContextRow]:
    """The pairs of a split; none of dev where there is none.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: a file without pairs, or a split that would be empty.
    """
    if part == "dev" and pairs.dev:
        return _read(corpus_paths(pairs.dev, "pairs.dev"))[0]
    if part == "dev" and not pairs.dev_fraction:
        return []
    rows = _read(corpus_paths(pairs.train, "pairs.train"))[0]
    if not pairs.dev_fraction:
        return rows
    fractions = {"train": 1 - pairs.dev_fraction, "dev": pairs.dev_fraction}
    chosen = _parts(rows, fractions, 0) == list(fractions).index(part)
    return [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]


def _read(paths: Sequence[Path]) -> tuple[list[ContextRow], int]:
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


def _together(pair: ContextRow) -> str:
    """What a split must not cut."""
    return pair.group if pair.group is not None else " ".join(pair.sentence.split())


def _parts(pairs: Iterable[ContextRow], fractions: Mapping[str, float], seed: int) -> np.ndarray:
    keys = [_together(pair) for pair in pairs]
    return parts_by([Document(key, key, group=key) for key in keys], fractions, seed)
