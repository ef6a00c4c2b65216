"""Does it pay to annotate in the order of `rayner corpus rank`? A simulated annotation on NCBI-disease.

    python -m benchmarks.annotation_order --runs runs/order      # all; goes on where it was cut off
    python -m benchmarks.annotation_order --runs runs/order --seeds 1 --fractions 0.05 0.1 --out order.json

The training abstracts play a corpus that nobody annotated. Both orders begin with the same abstracts, drawn
by chance. Then the one goes on by chance; the other takes the abstracts about which the tagger that was
trained on those so far is least certain. The file is written when no cell is missing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch

from benchmarks.command import call_main
from benchmarks.figures import Row, add_out, keep_origin, measured, origin_of, record
from rayner.config.recipe_files import corpus_paths
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.writers import write_parquet
from rayner.runtime.corpora.rank import rank
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training.train import train
from rayner.tasks.registry import load_recipe

RECIPE = Path(__file__).parents[1] / "jobs" / "recipes" / "tagger_ncbi.yaml"
CORPUS = "$RAYNER_DATA/ncbi-disease-pubtator/NCBItrainset_corpus.txt"
DEV = "$RAYNER_DATA/ncbi-disease-pubtator/NCBIdevelopset_corpus.txt"
ORDERS = ("random", "ranked")
UNITS = {"f1": "%", "words": "words", "mentions": "mentions"}
FULL_EPOCHS = 1.5
"""Over the whole corpus, at least as many: a small part of it is read more often."""
CONDITIONS = """A tagger, trained anew on each part of the training abstracts, the parts of an order within
each other; of a part of the size p max(6, 1.5 / p) epochs, of which the last is scored on the development
abstracts, so that nothing is chosen on them. Words and mentions are those that would have been annotated."""


class Cell(NamedTuple):
    """One training: a part of the corpus in one order."""

    seed: int
    order: str
    fraction: float

    def out(self, runs: Path) -> Path:
        """Its folder, named after the documents in a thousand."""
        return runs / f"{self.order}_{1000 * self.fraction:.0f}_{self.seed}"


def cells(seeds: Sequence[int], fractions: Sequence[float]) -> list[Cell]:
    """All, in the order in which they can be trained: the first part is the same for both orders."""
    return [
        Cell(seed, order, fraction)
        for seed in seeds
        for order in ORDERS
        for fraction in sorted(fractions)
        if order == ORDERS[0] or fraction > min(fractions)
    ]


def chosen(cell: Cell, before: Cell | None, corpus: Sequence[Document], runs: Path) -> list[str]:
    """The ids of the documents of a cell, of which the first are those of the cell before."""
    path = cell.out(runs).with_suffix(".chosen.json")
    if path.exists():
        return json.loads(path.read_text("utf-8"))
    wanted = round(cell.fraction * len(corpus))
    order = np.random.default_rng(cell.seed).permutation([d.document_id for d in corpus]).tolist()
    if cell.order == "random" or before is None:
        ids = order[:wanted]
    else:
        first = chosen(before, None, corpus, runs)
        pool, ranked = path.with_suffix(".pool.parquet"), path.with_suffix(".ranking")
        write_parquet([d for d in corpus if d.document_id not in set(first)], pool)
        rank([pool], before.out(runs) / "best", ranked)
        found = pq.read_table(ranked / "ranking.parquet")["document_id"].to_pylist()
        ids = [*first, *found[: wanted - len(first)]]
    path.write_text(json.dumps(ids), encoding="utf-8")
    return ids


def run(
    cell: Cell,
    ids: Sequence[str],
    corpus: Sequence[Document],
    runs: Path,
    epochs: int | None,
    precision: str = "float32",
) -> None:
    """Train a cell, or go on with it."""
    kept = set(ids)
    path = cell.out(runs).with_suffix(".parquet")
    write_parquet([d for d in corpus if d.document_id in kept], path)
    settings = {
        "corpus.train": [str(path)],
        "corpus.dev": [],
        "training.epochs": epochs or max(6, round(FULL_EPOCHS / cell.fraction)),
        "training.precision": precision,
        "seed": cell.seed,
    }
    recipe = load_recipe(RECIPE, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    train(recipe, cell.out(runs), workers=0)
    found = evaluate(cell.out(runs) / "best", corpus_paths([DEV]), intervals=False)
    keep_origin(cell.out(runs))
    _scores(cell, runs).write_text(json.dumps({"f1": found["f1"]}), encoding="utf-8")


def _scores(cell: Cell, runs: Path) -> Path:
    return cell.out(runs) / "scores.json"


def score(cell: Cell, corpus: Sequence[Document], runs: Path) -> dict[str, Any] | None:
    """The scores of a cell that is finished."""
    scores, ids = _scores(cell, runs), cell.out(runs).with_suffix(".chosen.json")
    if not scores.exists():
        return None
    kept = set(json.loads(ids.read_text("utf-8")))
    own = [d for d in corpus if d.document_id in kept]
    return {
        **json.loads(scores.read_text("utf-8")),
        "words": sum(len(d.text.split()) for d in own),
        "mentions": sum(len(d.mentions) for d in own),
    }


def rows_of(found: dict[Cell, dict[str, Any]], fractions: Sequence[float]) -> list[dict[str, Any]]:
    """The mean over seeds by order and fraction, and the difference of the two orders, seed by seed."""
    rows = []
    for fraction in sorted(fractions):
        first = fraction == min(fractions)
        of_orders = [
            {cell.seed: scores for cell, scores in found.items() if cell[1:] == (order, fraction)}
            for order in ORDERS
        ]
        for order, scores in zip(ORDERS, of_orders, strict=True):
            if scores:
                name = "both" if first else order
                rows.append({"order": name, "documents": f"{fraction:.0%}", **_means([*scores.values()])})
        both = sorted(set(of_orders[0]) & set(of_orders[1]))
        if both:
            difference = [of_orders[1][seed]["f1"] - of_orders[0][seed]["f1"] for seed in both]
            told = {"order": "ranked - random", "documents": f"{fraction:.0%}"}
            rows.append({**told, **_means([{"f1": value} for value in difference])})
    return rows


def _means(scores: Sequence[dict[str, Any]]) -> dict[str, Any]:
    f1 = [one["f1"] for one in scores]
    means = {key: statistics.mean(one[key] for one in scores) for key in scores[0]}
    return {
        **{key: value if key == "f1" else round(value) for key, value in means.items()},
        "f1_deviation": statistics.stdev(f1) if len(f1) > 1 else None,
        "seeds": len(f1),
    }


def figures(rows: Sequence[dict[str, Any]]) -> tuple[Row, ...]:
    """The rows as they are written; the differences are the headline."""
    shown = [{key: value for key, value in row.items() if key != "seeds"} for row in rows]
    return measured(
        shown,
        UNITS,
        n=lambda row: rows[shown.index(row)]["seeds"],  # pyright: ignore[reportArgumentType]
        headline="f1",
        where=lambda row: row["order"] == "ranked - random",
    )


def main() -> None:
    """Train what is missing, print the rows, and write the file where none is missing."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--runs", type=Path, default=Path("runs/order"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.05, 0.1, 0.2, 0.4])
    parser.add_argument("--epochs", type=int, help="of each cell, in place of what its size asks for")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--table", action="store_true", help="print what is finished, train nothing")
    add_out(parser, "annotation_order")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = options.runs.resolve()
    runs.mkdir(parents=True, exist_ok=True)
    corpus = read_corpus(corpus_paths([CORPUS])).documents
    planned = cells(options.seeds, options.fractions)
    for cell in () if options.table else planned:
        if score(cell, corpus, runs) is None:
            smaller = [c for c in planned if c.seed == cell.seed and c.fraction < cell.fraction]
            own = [c for c in smaller if c.order == cell.order or c.fraction == min(options.fractions)]
            before = max(own, key=lambda c: c.fraction, default=None)
            ids = chosen(cell, before, corpus, runs)
            run(cell, ids, corpus, runs, options.epochs, options.precision)
    found = {cell: scores for cell in planned if (scores := score(cell, corpus, runs)) is not None}
    rows = rows_of(found, options.fractions)
    if len(found) == len(planned):
        record(
            "annotation_order",
            options.out,
            origin_of(cell.out(runs) for cell in planned),
            title="Annotating in the order of uncertainty",
            section="Annotation",
            task="corpus rank",
            precision=options.precision,
            conditions=CONDITIONS.replace("\n", " "),
            seeds=tuple(sorted(options.seeds)),
            uncertainty="± is the standard deviation over seeds.",
            rows=figures(rows),
        )
    else:
        print(f"{len(planned) - len(found)} of {len(planned)} cells are missing", file=sys.stderr)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    call_main(main)
