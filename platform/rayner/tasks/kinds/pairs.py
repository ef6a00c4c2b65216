"""Pairs of a sentence and a context, which is relevant to it or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from rayner.config import RankerRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.metrics.ranking import relevance_intervals
from rayner.supervision.context_rows import ContextRow, row_to_json
from rayner.tasks.base import Mode, ParallelMap, Predictor
from rayner.tasks.kinds.base import FOLDER, Card, GoldItems, Kind, Source, lines_file
from rayner.tasks.ranker.pair_splits import Relevance, parts_of_pairs, read_pairs, together

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


class Pairs(Kind):
    """Pairs, scored by whether they are taken for relevant."""

    name = "pairs"
    metrics: Mapping[str, Mode] = {
        **dict.fromkeys(("accuracy", "f1", "precision", "recall"), "max"),
        "mse": "min",
    }
    report_parts: Sequence[str] = ("pair_confidence",)

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: RankerRecipe,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """The pairs of JSONL files; the notes have `rejected`, lines that are none."""
        rows, rejected = read_pairs(paths)
        return GoldItems(rows, {"rejected": rejected})

    def intervals(
        self, gold: Sequence[ContextRow], predicted: Sequence[Relevance], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Over groups of pairs."""
        return relevance_intervals(
            [pair.relevant for pair in gold],
            [answer.score for answer in predicted],
            [together(pair) for pair in gold],
        )

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
                "One that learned from `rayner kb candidates` re-ranks the entities of a standardizer.",
            ],
            commands=[
                f"rayner evaluate {FOLDER} pairs.jsonl",
                f"rayner train RECIPE --set context.ranker={FOLDER} --set context.candidates=8 "
                "--set windows.context=48 --out RUN",
                f"rayner kb rerank STANDARDIZER {FOLDER} --out DIR",
            ],
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
            items=lambda: read_pairs(corpus_paths(recipe.pairs.train, "pairs"))[0],
            parts=parts_of_pairs,
            writing=lines_file(row_to_json),
            suffix=".jsonl",
        )
