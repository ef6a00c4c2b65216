"""Does pre-training of its encoder help a recognizer or a tagger?

    python -m benchmarks.recognizer_encoders --runs runs/recognizer_encoders

Goes on where it was cut off.

A recognizer learns nested mentions in books of LitBank, or diseases in abstracts of NCBI's training set,
from four encoders: the embedded one as it is; that after masked language modelling on the documents of
jobs/recipes/chains_litbank.yaml, or after the recipe itself, with as many steps; and that after Gaussian
contrastive pre-training on the documents which the recognizer learns from. On GUM, a tagger learns the
outermost mentions, of ten types, and no words but those of mentions and beside them (papers/003, section 4.2
and appendix A). Of what is learned from, a fifth chooses the epoch. The books of LitBank and documents of
GUM in the development part of that recipe, which no pre-training reads, and the abstracts of NCBI's
development set are asked once.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out_folder, measured, origin_of, precision_of, record
from benchmarks.results_page import table as tables
from benchmarks.span_counts import counts, f1, interval, resampled, row_of_seeds
from benchmarks.trainings import RECIPES, train
from benchmarks.typing_corpora import books, genres
from benchmarks.typing_results import PRETRAINING
from benchmarks.typing_runs import Cut, pretrain
from rayner.data.readers import read_corpus
from rayner.data.writers.base import Losses
from rayner.data.writers.iob2 import outermost
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, task_of

GAUSSIAN = {"epochs": 3, "tokens_per_step": 1024, "learning_rate": 2e-4}
"""The training of the Gaussian pre-training, as in `benchmarks.gaussian_results`."""
CORPORA = ("LitBank", "NCBI", "GUM")
ENCODERS = ("untrained", *PRETRAINING, "Gaussian")
METRICS = ("f1", "precision", "recall")
SCORED = "counts.json"


class Corpus(NamedTuple):
    """What is learned.

    Attributes:
        recipe: of a recognizer or a tagger.
        learned: the files that it learns from.
        asked: those that it is asked about.
        epochs: for how many it learns.
        changes: KEY=VALUE of the recipe.
    """

    recipe: Path
    learned: Sequence[Path]
    asked: Sequence[Path]
    epochs: int
    changes: Sequence[str] = ()


def corpora(most_books: int, epochs: Mapping[str, int]) -> dict[str, Corpus]:
    """LitBank, of which the first books by name are learned from; NCBI; and GUM."""
    learned, asked = books()
    stories = genres()
    names = {m.type for d in read_corpus(stories[0]).documents for m in d.mentions}
    types = [{"name": name, "description": name} for name in sorted(names)]
    folder = Path(os.path.expandvars("$RAYNER_DATA/ncbi-disease-pubtator"))
    train, develop = (folder / f"NCBI{part}set_corpus.txt" for part in ("train", "develop"))
    return {
        "LitBank": Corpus(
            RECIPES / "recognizer_litbank.yaml", learned[:most_books], asked, epochs["LitBank"]
        ),
        "NCBI": Corpus(RECIPES / "recognizer_ncbi.yaml", [train], [develop], epochs["NCBI"]),
        "GUM": Corpus(
            RECIPES / "tagger_litbank.yaml",
            *stories,
            epochs["GUM"],
            (f"types={json.dumps(types)}", "loss.outside=neighbours"),
        ),
    }


def encoder_of(name: str, corpus: str, of: Corpus, runs: Path, cut: Cut) -> str:
    """The encoder that a recognizer starts from, pre-trained where it is missing."""
    recipe: Any = load_recipe(of.recipe, of.changes)
    if name == "untrained":
        return recipe.encoder
    if name in PRETRAINING:
        return pretrain(runs / name.replace(" ", "_"), PRETRAINING[name], cut)
    out = runs / f"gaussian_{corpus}"
    described = {
        "task": "gaussian",
        "corpus": {"train": list(map(str, of.learned)), "rename": recipe.corpus.rename, "dev_fraction": 0},
        "types": [one.model_dump(mode="json") for one in recipe.types],
        "windows": {"length": 128},
        "training": GAUSSIAN,
    }
    runs.mkdir(parents=True, exist_ok=True)
    # JSON is YAML.
    out.with_suffix(".yaml").write_text(json.dumps(described), encoding="utf-8")
    train(out.with_suffix(".yaml"), out, ["seed=1"])
    return str(out / "best")


def _out(corpus: str, encoder: str, seed: int, runs: Path) -> Path:
    return runs / f"{corpus}_{encoder.replace(' ', '_')}_{seed}"


def score(of: Corpus, encoder: str, seed: int, out: Path) -> None:
    """Train, and keep the counts of each document that is asked."""
    if (out / SCORED).exists():
        return
    changes = {
        "corpus.train": json.dumps(list(map(str, of.learned))),
        "corpus.dev": "[]",
        "corpus.dev_fraction": 0.2,
        "training.epochs": of.epochs,
        "encoder": encoder,
        "seed": seed,
    }
    train(of.recipe, out, [*of.changes, *(f"{key}={value}" for key, value in changes.items())])
    loaded: Any = load_checkpoint(out / "best")
    predictor = loaded.predictor()
    gold = list(task_of(loaded.recipe).kind.read(of.asked, "auto", loaded.recipe, predictor).items)
    if loaded.recipe.task == "tagger":
        flat = (outermost(document.mentions, Losses(document.document_id)) for document in gold)
        gold = [replace(document, mentions=tuple(of)) for document, of in zip(gold, flat, strict=True)]
    found = list(predict(predictor, [replace(document, mentions=()) for document in gold]))
    table = counts(gold, found, [one.name for one in loaded.recipe.types])
    (out / SCORED).write_text(json.dumps(table.tolist()), encoding="utf-8")


def rows(names: Sequence[str], seeds: Sequence[int], runs: Path) -> list[dict[str, Any]]:
    """One for each corpus and encoder that is finished; `gain` is over the untrained one, of the seeds that
    both have."""
    table: list[dict[str, Any]] = []
    for corpus in names:
        found = {
            (encoder, seed): np.array(json.loads(file.read_text("utf-8")))
            for encoder in ENCODERS
            for seed in seeds
            if (file := _out(corpus, encoder, seed, runs) / SCORED).exists()
        }
        for encoder in ENCODERS:
            of_row = [seed for seed in seeds if (encoder, seed) in found]
            if not of_row:
                continue
            ours = np.stack([found[encoder, seed] for seed in of_row])
            row: dict[str, Any] = {"corpus": corpus, "encoder": encoder, **row_of_seeds(ours)}
            both = [seed for seed in of_row if ("untrained", seed) in found]
            if encoder != "untrained" and both:
                pair = [np.stack([found[e, seed] for seed in both]) for e in (encoder, "untrained")]
                row["gain"] = float(f1(pair[0].sum(1)).mean() - f1(pair[1].sum(1)).mean())
                row["gain_interval"] = interval(resampled(pair[0]) - resampled(pair[1]))
            table.append(row)
    return table


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/recognizer_encoders"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=CORPORA, help="train on these alone")
    parser.add_argument("--encoders", nargs="+", choices=ENCODERS, default=ENCODERS, help="from these alone")
    parser.add_argument("--books", type=int, default=100, help="to learn from, the first by name")
    parser.add_argument("--epochs", nargs=3, type=int, default=[10, 6, 10], help="of each of the corpora")
    parser.add_argument("--cut", nargs="+", default=[], metavar="KEY=VALUE", help="set for both of chains")
    parser.add_argument("--finished", action="store_true", help="train nothing, and write what is finished")
    parser.add_argument("--json", action="store_true")
    add_out_folder(parser)
    options = parser.parse_args()
    runs, cut = options.runs.resolve(), Cut(options.cut)
    learned = corpora(options.books, dict(zip(CORPORA, options.epochs, strict=True)))
    torch.set_num_threads(1)
    planned = [
        (seed, corpus, encoder) for seed in options.seeds for corpus in learned for encoder in ENCODERS
    ]
    for seed, corpus, encoder in planned if not options.finished else ():
        if corpus not in options.only or encoder not in options.encoders:
            continue
        of = learned[corpus]
        score(of, encoder_of(encoder, corpus, of, runs, cut), seed, _out(corpus, encoder, seed, runs))
    table = rows(list(learned), options.seeds, runs)
    shown = measured(table, dict.fromkeys((*METRICS, "gain"), "%"), n=lambda row: row["seeds"])
    outs = {
        _out(corpus, encoder, seed, runs): f"{corpus}, {encoder}, seed {seed}"
        for seed, corpus, encoder in planned
    }
    left = [name for out, name in outs.items() if not (out / SCORED).exists()]
    encoders = [runs / name.replace(" ", "_") for name in PRETRAINING]
    record(
        "recognizer_encoders",
        options.out / "recognizer_encoders.json",
        origin_of([*outs, *encoders, *(runs / f"gaussian_{corpus}" for corpus in learned)]),
        title="Recognition: encoders that were pre-trained",
        section="Pre-training",
        task="recognizer",
        precision=precision_of([*outs, *encoders]),
        conditions=" ".join(
            filter(
                None,
                [
                    " ".join(str(__doc__).split("\n\n")[3].split()),
                    f"Books that are learned from: {len(learned['LitBank'].learned)}.",
                    *(
                        f"Epochs on {corpus}: {of.epochs} of {load_recipe(of.recipe).training.epochs}."
                        for corpus, of in learned.items()
                        if of.epochs < load_recipe(of.recipe).training.epochs
                    ),
                    f"The pre-trainings on chains were cut: {', '.join(options.cut)}." if options.cut else "",
                    f"The Gaussian one has {GAUSSIAN['epochs']} epochs. One seed of each pre-training.",
                    f"Not finished, and so not here: {'; '.join(left)}." if left else "",
                ],
            )
        ),
        seeds=tuple(options.seeds),
        uncertainty="Intervals are of 95 %, over documents, those of gain paired; ± is over seeds.",
        rows=shown,
    )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
