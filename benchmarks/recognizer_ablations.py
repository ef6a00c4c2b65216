"""What a type is described by, and what tells mentions from other spans (papers/000, tables 5 and 6); and
what settings beyond the paper gain or lose.

    python -m benchmarks.recognizer_ablations --runs runs/recognizer_ablations
    python -m benchmarks.recognizer_ablations --runs runs/recognizer_ablations --of settings

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
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out_folder, keep_origin, measured, origin_of, record
from benchmarks.results_page import table as tables
from benchmarks.span_counts import answers, counts, f1, interval, resampled, row_of_seeds
from benchmarks.trainings import RECIPES, train
from benchmarks.typing_corpora import books
from rayner.config import TypeSettings
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.metrics.judged_mentions import score_calibration_error
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


class Row(NamedTuple):
    """A row: its folder, what the table says of it, and the keys of the recipe that it changes. With `of`
    it takes the training of another row, and `changes` are of how that decodes."""

    name: str
    columns: Mapping[str, Any]
    changes: Mapping[str, Any]
    of: str | None = None


class Table(NamedTuple):
    """The file of a table, its title, what is to be said of it, and its rows."""

    file: str
    title: str
    about: str
    rows: Sequence[Row]


def _described(type_encoding: str, threshold: str) -> Row:
    columns = {"type_encoding": type_encoding, "threshold": threshold}
    return Row(f"{type_encoding}_{threshold}", columns, {f"model.{key}": v for key, v in columns.items()})


def _set(name: str, changes: Mapping[str, Any], of: str | None = None) -> Row:
    shown = ", ".join(f"{key} {json.dumps(value)}" for key, value in changes.items())
    return Row(name, {"setting": shown or "as the paper"}, changes, of)


WORDS = range(8, 31)
"""Of the sentence that is an example of a type."""
PLAIN = "guideline_dynamic"
TABLES = {
    "descriptions": Table(
        "recognizer_ablations",
        "Recognition: descriptions of types, and thresholds",
        "A keyword is a word such as `vehicle`; a prototype is the first sentence of "
        f"{WORDS[0]} to {WORDS[-1]} words with one mention of the type.",
        (
            _described("guideline", "dynamic"),
            _described("guideline", "learned"),
            _described("guideline", "tuned"),
            _described("keyword", "dynamic"),
            _described("atomic", "dynamic"),
            _described("prototype", "dynamic"),
        ),
    ),
    "settings": Table(
        "recognizer_settings",
        "Recognition: settings beyond the paper",
        "With `calibration.fraction` that part of the documents teaches nothing else. Rows of `decoding` "
        "take the training of the first one. `calibration_error` is that of the scores of mentions found.",
        (
            _set(PLAIN, {}),
            _set("joint", {"decoding.joint": True}, PLAIN),
            _set("margins", {"decoding.start_weight": 0.2, "decoding.end_weight": 0.2}, PLAIN),
            _set("set_apart", {"calibration.fraction": 0.2}),
            _set("moved", {"calibration.fraction": 0.2, "calibration.thresholds": True}),
            _set("smoothing", {"loss.boundary_smoothing": 0.1}),
            # The recipe averages. Within so few steps the decay is still rising: another one is the same.
            _set("not_averaged", {"training.average": None}),
            _set("layer_decay", {"training.layer_decay": 0.9}),
            _set("r_drop", {"loss.r_drop": 0.5}),
        ),
    ),
}
"""The paper's method is the first row of both."""
SCORED, ERROR = "counts.json", "calibration_error.json"
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


def _out(row: Row, seed: int, runs: Path) -> Path:
    return runs / f"{row.name}_{seed}"


def score(row: Row, seed: int, runs: Path, most: int, epochs: int) -> None:
    """Train a recognizer, and keep its counts of each book that is asked."""
    out = _out(row, seed, runs)
    if (out / SCORED).exists() and (out / ERROR).exists():
        return
    learned, asked = books()
    learned = learned[:most]
    if row.of is None:
        types = described(list(read_corpus(learned).documents))
        changes = {
            "corpus.train": json.dumps([str(path) for path in learned]),
            "corpus.dev_fraction": 0.2,
            "types": json.dumps([one.model_dump(mode="json") for one in types]),
            "training.epochs": epochs,
            "seed": seed,
            **{key: json.dumps(value) for key, value in row.changes.items()},
        }
        train(RECIPE, out, [f"{key}={value}" for key, value in changes.items()])
        loaded = load_checkpoint(out / "best")
    else:
        loaded = load_checkpoint(runs / f"{row.of}_{seed}" / "best")
        recipe = loaded.task.recipe
        decoding = {key.removeprefix("decoding."): value for key, value in row.changes.items()}
        decoded = recipe.decoding.model_copy(update=decoding)
        loaded.task.recipe = recipe.model_copy(update={"decoding": decoded})
        out.mkdir(exist_ok=True)
        keep_origin(out)
    gold, found = answers(loaded.predictor(), asked)
    error = score_calibration_error(gold, found, list(KEYWORDS))
    (out / ERROR).write_text(json.dumps(error), encoding="utf-8")
    (out / SCORED).write_text(json.dumps(counts(gold, found, list(KEYWORDS)).tolist()), encoding="utf-8")


def rows(table: Sequence[Row], seeds: Sequence[int], runs: Path) -> list[dict[str, Any]]:
    """One for each row that is finished; `gain` is over the paper's method."""
    scored: dict[str, np.ndarray] = {}
    made_rows = []
    for row in table:
        outs = [out for seed in seeds if ((out := _out(row, seed, runs)) / SCORED).exists()]
        if not outs:
            continue
        of_row = scored[row.name] = np.stack([json.loads((out / SCORED).read_text("utf-8")) for out in outs])
        made: dict[str, Any] = {**row.columns, **row_of_seeds(of_row)}
        errors = [json.loads((out / ERROR).read_text("utf-8")) for out in outs if (out / ERROR).exists()]
        if of_each := [error["calibration_error"] for error in errors if error]:
            made["calibration_error"] = statistics.mean(of_each)
        if row.name != table[0].name and table[0].name in scored:
            plain = scored[table[0].name]
            made["gain"] = made["f1"] - float(f1(plain.sum(1)).mean())
            made["gain_interval"] = interval(resampled(of_row) - resampled(plain))
        made_rows.append(made)
    return made_rows


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--of", choices=[*TABLES], default="descriptions", help="which table")
    parser.add_argument("--runs", type=Path, default=Path("runs/recognizer_ablations"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--books", type=int, default=100, help="to learn from, the first by name")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--finished", action="store_true", help="train nothing, and write what is finished")
    parser.add_argument("--json", action="store_true")
    add_out_folder(parser)
    options = parser.parse_args()
    of, runs = TABLES[options.of], options.runs.resolve()
    torch.set_num_threads(1)
    if not (options.table or options.finished):
        for seed in options.seeds:
            for row in of.rows:
                score(row, seed, runs, options.books, options.epochs)
    table = rows(of.rows, options.seeds, runs)
    units: dict[str, str] = dict.fromkeys((*METRICS, "gain", "calibration_error"), "%")
    shown = measured(table, units, n=lambda row: row["seeds"])
    if not options.table:
        write(of, shown, runs, options)
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


def write(of: Table, shown: Sequence[Any], runs: Path, options: argparse.Namespace) -> None:
    """The file of results."""
    outs = {_out(row, seed, runs): row.name for row in of.rows for seed in options.seeds}
    finished = [out for out in outs if (out / SCORED).exists()]
    left = dict.fromkeys(name.replace("_", " ") for out, name in outs.items() if out not in finished)
    learned, asked = books()
    record(
        "recognizer_ablations",
        options.out / f"{of.file}.json",
        origin_of(finished),
        title=of.title,
        section="Recognition",
        task="recognizer",
        conditions=" ".join(str(__doc__).split("\n\n")[3].split())
        + f" {min(options.books, len(learned))} of {len(learned)} books were learned from, a fifth of "
        f"them to choose by, for {options.epochs} epochs (the recipe has "
        f"{load_recipe(RECIPE).training.epochs}); {len(asked)} were asked. {of.about} "
        "Gains are over the first row, the paper's method."
        + (f" Not finished, and so not here: {', '.join(left)}." if left else ""),
        seeds=tuple(options.seeds),
        uncertainty="Intervals are of 95 %, over books, those of gain paired; ± is over seeds.",
        rows=shown,
    )


if __name__ == "__main__":
    call_main(main)
