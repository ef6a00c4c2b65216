"""What a type is described by, and what tells mentions from other spans: papers/000, tables 5 and 6.

    python -m benchmarks.recognizer_ablations --runs runs/recognizer_ablations

Goes on where it was cut off.

Nested mentions of six ACE types in LitBank. The books of the development part of
jobs/recipes/chains_litbank.yaml are asked once; of the others, a fifth chooses the best epoch, and the
thresholds where these are tuned.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, origin_of, record
from benchmarks.results_page import table as tables
from benchmarks.span_counts import counts_of, f1, interval, resampled
from benchmarks.trainings import RECIPES, train
from benchmarks.typing_corpora import books
from rayner.config import TypeSettings
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.registry import load_recipe

RECIPE = RECIPES / "recognizer_litbank.yaml"
KEYWORDS = {
    "PER": "person",
    "FAC": "building",
    "GPE": "country",
    "LOC": "place",
    "VEH": "vehicle",
    "ORG": "organization",
}
ROWS: Sequence[tuple[str, str]] = [
    ("guideline", "dynamic"),
    ("guideline", "learned"),
    ("guideline", "tuned"),
    ("keyword", "dynamic"),
    ("atomic", "dynamic"),
    ("prototype", "dynamic"),
]
"""Type encodings and thresholds, the paper's method first."""
WORDS = range(8, 31)
"""Of the sentence that is an example of a type."""
SCORED = "counts.json"
METRICS = ("f1", "precision", "recall")


def example_of(kind: str, documents: Sequence[Document]) -> str:
    """The first sentence of a fair length that has one mention of the type, in double brackets."""
    for document in documents:
        for start, end in document.sentences or ():
            of_type = [m for m in document.mentions if m.type == kind and start <= m.start and m.end <= end]
            text = document.text
            if len(of_type) == 1 and len(text[start:end].split()) in WORDS:
                mention = of_type[0]
                marked = f"[[{text[mention.start : mention.end]}]]"
                return f"{text[start : mention.start]}{marked}{text[mention.end : end]}"
    raise ValueError(f"no sentence of {WORDS[0]} to {WORDS[-1]} words has one mention of {kind}")


def described(documents: Sequence[Document]) -> list[TypeSettings]:
    """The types of the recipe, with a keyword and an example too."""
    return [
        one.model_copy(
            update={"keyword": KEYWORDS[one.name], "prototypes": (example_of(one.name, documents),)}
        )
        for one in load_recipe(RECIPE).types
    ]


def _out(row: tuple[str, str], seed: int, runs: Path) -> Path:
    return runs / f"{row[0]}_{row[1]}_{seed}"


def score(row: tuple[str, str], seed: int, runs: Path, most: int, epochs: int) -> None:
    """Train a recognizer, and keep its counts of each book that is asked."""
    out = _out(row, seed, runs)
    if (out / SCORED).exists():
        return
    learned, asked = books()
    learned = learned[:most]
    types = described(list(read_corpus(learned).documents))
    changes = {
        "corpus.train": json.dumps([str(path) for path in learned]),
        "corpus.dev_fraction": 0.2,
        "types": json.dumps([one.model_dump(mode="json") for one in types]),
        "model.type_encoding": row[0],
        "model.threshold": row[1],
        "training.epochs": epochs,
        "seed": seed,
    }
    train(RECIPE, out, [f"{key}={value}" for key, value in changes.items()])
    loaded = load_checkpoint(out / "best")
    counts = counts_of(loaded.predictor(), asked, list(KEYWORDS))
    (out / SCORED).write_text(json.dumps(counts.tolist()), encoding="utf-8")


def rows(seeds: Sequence[int], runs: Path) -> list[dict[str, Any]]:
    """One for each row that is finished; `gain` is over the paper's method."""
    counts: Mapping[tuple[str, str], np.ndarray] = {
        row: np.stack([json.loads(file.read_text("utf-8")) for file in files])
        for row in ROWS
        if (files := [f for seed in seeds if (f := _out(row, seed, runs) / SCORED).exists()])
    }
    table = []
    for row, of_row in counts.items():
        by_seed = f1(of_row.sum(1)).tolist()
        right, found, gold = of_row.sum((0, 1))
        made: dict[str, Any] = {"type_encoding": row[0], "threshold": row[1], "seeds": len(by_seed)}
        made |= {"f1": statistics.mean(by_seed), "f1_interval": interval(resampled(of_row))}
        if len(by_seed) > 1:
            made["f1_deviation"] = statistics.stdev(by_seed)
        made |= {"precision": right / max(1, found), "recall": right / gold}
        if row != ROWS[0] and ROWS[0] in counts:
            plain = counts[ROWS[0]]
            made["gain"] = made["f1"] - float(f1(plain.sum(1)).mean())
            made["gain_interval"] = interval(resampled(of_row) - resampled(plain))
        table.append(made)
    return table


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/recognizer_ablations"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--books", type=int, default=100, help="to learn from, the first by name")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--finished", action="store_true", help="train nothing, and write what is finished")
    parser.add_argument("--json", action="store_true")
    add_out(parser, "recognizer_ablations")
    options = parser.parse_args()
    runs, (learned, asked) = options.runs.resolve(), books()
    torch.set_num_threads(1)
    if not (options.table or options.finished):
        for seed in options.seeds:
            for row in ROWS:
                score(row, seed, runs, options.books, options.epochs)
    table = rows(options.seeds, runs)
    shown = measured(table, dict.fromkeys((*METRICS, "gain"), "%"), n=lambda row: row["seeds"])
    if not options.table:
        outs = {_out(row, seed, runs): " ".join(row) for row in ROWS for seed in options.seeds}
        finished = [out for out in outs if (out / SCORED).exists()]
        left = dict.fromkeys(name for out, name in outs.items() if out not in finished)
        record(
            "recognizer_ablations",
            options.out,
            origin_of(finished),
            title="Recognition: descriptions of types, and thresholds",
            section="Recognition",
            task="recognizer",
            conditions=" ".join(str(__doc__).split("\n\n")[3].split())
            + f" {min(options.books, len(learned))} of {len(learned)} books were learned from, a fifth of "
            f"them to choose by, for {options.epochs} epochs (the recipe has "
            f"{load_recipe(RECIPE).training.epochs}); {len(asked)} were asked. A keyword is a word such as "
            f"`vehicle`; a prototype is the first sentence of {WORDS[0]} to {WORDS[-1]} words with one "
            "mention of the type. Gains are over the first row, the paper's method."
            + (f" Not finished, and so not here: {', '.join(left)}." if left else ""),
            seeds=tuple(options.seeds),
            uncertainty="Intervals are of 95 %, over books, those of gain paired; ± is over seeds.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
