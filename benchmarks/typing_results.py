"""The figures of fine-grained typing: does the pre-training of its encoder pay? (papers/003, tables 1 and 2)

    python -m benchmarks.typing_results --runs runs/typing            # all; goes on where it was cut off
    python -m benchmarks.typing_results --runs runs/typing --table    # trains and writes nothing
    python -m benchmarks.typing_results --runs runs/typing --finished # trains nothing, writes what there is
    python -m benchmarks.typing_results --runs runs/typing --corpus gum   # the types of GUM, or of litbank

Three encoders: the embedded one as it is; the same after masked language modelling on the documents of
jobs/recipes/chains_litbank.yaml; and after that recipe, with as many steps. On each a linear head over head
words learns the types of mentions: of UFET's crowd-annotated training part, or of the documents of GUM or of
LitBank that the pre-training may read. Thresholds, and the head's learning rate where the encoder is frozen,
are chosen on a slice of that part; UFET's dev, or the other documents, score once. `chain_mrr` is a metric
of the pre-training: for each mention of its dev documents, 1 over the rank of the nearest mention of the same
chain among all others; `chain_mrr_other_stories`, which its loss goes by, leaves the other chains of the
mention's own document out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out_folder, keep_origin, measured, origin_of, record
from benchmarks.results_page import table as tables
from benchmarks.typing_corpora import CORPORA, TypedCorpus
from rayner.errors import RaynerError
from rayner.metrics.typed_mentions import typed_items
from rayner.metrics.typing import scores_of, type_tables
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, task_of

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "jobs" / "recipes"
PRETRAINING: Mapping[str, Sequence[str]] = {
    "coreference chains": (),
    "masked language modelling": ("loss.contrast_weight=0", "masking.mentions=none"),
}
ENCODERS = ("untrained", *PRETRAINING)
"""In the order in which they are measured: where time ends, that of the aim are there first."""
RATES = ("1e-3", "3e-3", "1e-2")
"""The head's learning rates that are tried where the encoder is frozen."""
MODES: Mapping[str, Sequence[str]] = {
    "frozen": ("model.train_encoder=false", "training.epochs=40"),
    "tuned": ("training.epochs=8", "training.learning_rate=1e-4", "training.head_learning_rate=3e-3"),
}
"""What is set for each way."""
TYPING = (
    "model.mention_encoding=head",
    "model.head=linear",
    "decoding.threshold=tuned",
)
METRICS = ("accuracy", "macro_precision", "macro_recall", "macro_f1", "micro_f1")
CHAIN_METRICS: Mapping[str, str] = {
    "chain_mrr": "mrr",
    "chain_mrr_other_stories": "mrr_other_stories",
}
SCORED = "items.json"
RESAMPLES = 2000


class Cut(NamedTuple):
    """What a quicker run than the whole one leaves out.

    Attributes:
        pretraining: KEY=VALUE of both pre-trainings.
        genres: those of GUM whose documents the pre-trainings read alone, in training and on dev; all
            documents without.
        typers: KEY=VALUE of all typers.
        rates: the head's learning rates that are tried where the encoder is frozen.
    """

    pretraining: Sequence[str] = ()
    genres: Sequence[str] = ()
    typers: Sequence[str] = ()
    rates: Sequence[str] = RATES

    def settings(self, mode: str) -> list[tuple[str, ...]]:
        """The settings of a typer, of which the best on the slice of train is taken."""
        given = (*MODES[mode], *self.typers)
        if mode == "tuned":
            return [given]
        return [(*given, f"training.head_learning_rate={rate}") for rate in self.rates]

    def words(self) -> str:
        """A sentence a cut."""
        parts = []
        if self.genres:
            parts.append(f"Both pre-trainings read GUM's {' and '.join(self.genres)} alone.")
        if self.pretraining:
            parts.append(f"Both pre-trainings were cut: {', '.join(self.pretraining)}.")
        if self.typers:
            parts.append(f"The typers were cut: {', '.join(self.typers)}.")
        if tuple(self.rates) != RATES:
            parts.append(f"Learning rates of the head over frozen encoders: {', '.join(self.rates)} alone.")
        return " ".join(parts)

    def documents(self) -> tuple[str, ...]:
        """The documents of the pre-trainings, where they are cut to some genres."""
        if not self.genres:
            return ()
        corpus = load_recipe(RECIPES / "chains_litbank.yaml").corpus
        folder = Path(os.path.expandvars(next(path for path in corpus.train if "gum" in path)))
        chosen = sorted(str(p) for genre in self.genres for p in folder.glob(f"GUM_{genre}_*.conll"))
        held_out = {os.path.expandvars(path) for path in corpus.dev}
        if not chosen:
            raise RaynerError(f"--genres: {folder} has no document of {', '.join(self.genres)}")
        train, dev = ([p for p in chosen if (p in held_out) == side] for side in (False, True))
        return f"corpus.train={json.dumps(train)}", f"corpus.dev={json.dumps(dev)}"


class Run(NamedTuple):
    """One typer."""

    corpus: str
    encoder: str
    mode: str
    seed: int

    def out(self, runs: Path) -> Path:
        """Its folder."""
        return runs / self.corpus / f"{self.encoder.replace(' ', '_')}_{self.mode}_{self.seed}"


def train(recipe: str, out: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Train, or go on with, a run in a process of its own with one thread; what it prints."""
    if (out / "result.json").exists():
        return json.loads((out / "result.json").read_text("utf-8"))
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "rayner.cli", "train", str(RECIPES / recipe), "--out", str(out)]
    command += ["--workers", "0", "--json", *(word for change in changes for word in ("--set", change))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    with out.with_suffix(".log").open("a") as log:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    if done.returncode:
        raise RaynerError(f"{out}: the training failed; see {out.with_suffix('.log')}")
    keep_origin(out)
    return json.loads(done.stdout.splitlines()[-1])


def encoder_of(name: str, runs: Path, cut: Cut) -> str:
    """The encoder after its pre-training, at its end: as many steps as the other pre-training had."""
    if name == "untrained":
        return load_recipe(RECIPES / "typer_ufet.yaml").encoder
    out = runs / name.replace(" ", "_")
    train("chains_litbank.yaml", out, (*PRETRAINING[name], *cut.documents(), *cut.pretraining))
    return str(out / "last")


def chain_metrics(name: str, runs: Path, cut: Cut) -> dict[str, float]:
    """The metrics of the pre-training: how near mentions of a chain of dev lie to each other.

    Empty: the pre-training is not finished.
    """
    out = runs / name.replace(" ", "_")
    if name != "untrained":
        result = out / "result.json"
        return _of_chains(json.loads(result.read_text("utf-8"))["metrics"]) if result.exists() else {}
    stored = runs / "untrained_mrr.json"
    if not stored.exists():
        recipe = load_recipe(RECIPES / "chains_litbank.yaml", cut.documents())
        kind = task_of(recipe).kind
        task = task_of(recipe).learn(recipe, None)
        scorer = task.scorer(task.build())
        assert scorer is not None
        dev = list(kind.read([Path(path) for path in recipe.corpus.dev], "auto", recipe, scorer).items)
        stored.write_text(json.dumps(scorer.evaluate(list(predict(scorer, dev)), dev)), encoding="utf-8")
    return _of_chains(json.loads(stored.read_text("utf-8")))


def _of_chains(metrics: Mapping[str, float]) -> dict[str, float]:
    return {column: metrics[metric] for column, metric in CHAIN_METRICS.items()}


def score(run: Run, corpus: TypedCorpus, runs: Path, cut: Cut) -> None:
    """Train a typer in each setting, take the best of the slice, and keep the types of the mentions asked."""
    out = run.out(runs)
    if (out / SCORED).exists():
        return
    encoder, tried = encoder_of(run.encoder, runs, cut), []
    tries = cut.settings(run.mode)
    for number, settings in enumerate(tries):
        changes = [*corpus.learning, *TYPING, *settings, f"encoder={encoder}", f"seed={run.seed}"]
        printed = train("typer_ufet.yaml", out / str(number), changes)
        tried.append((printed["metrics"]["macro_f1"], number))
    best = max(tried)[1]
    loaded = load_checkpoint(out / str(best) / "best")
    predictor = loaded.task.predictor(loaded.model)
    assert predictor is not None
    kind = task_of("typer").kind
    documents = list(kind.read(corpus.asked, "auto", loaded.recipe, predictor).items)
    gold, found = [], []
    for document, answer in zip(documents, predict(predictor, documents), strict=True):
        for table, of_mentions in zip((gold, found), typed_items([document], [answer]), strict=True):
            table.append([sorted(types) for types in of_mentions])
    rows = {"setting": list(tries[best]), "gold": gold, "found": found}
    (out / SCORED).write_text(json.dumps(rows), encoding="utf-8")


def rows(planned: Sequence[Run], runs: Path, cut: Cut) -> list[dict[str, Any]]:
    """One row for each encoder, with the metric of its pre-training; then one for each encoder and way: the
    mean over seeds, and how much more than untrained."""
    table: list[dict[str, Any]] = []
    for encoder in ENCODERS:
        if found := chain_metrics(encoder, runs, cut):
            table.append({"encoder": encoder, "typer": "none", "seeds": 1, **found})
    for mode in MODES:
        terms: dict[str, np.ndarray] = {}
        for encoder in ENCODERS:
            files = [r.out(runs) / SCORED for r in planned if (r.encoder, r.mode) == (encoder, mode)]
            if answers := [json.loads(file.read_text("utf-8")) for file in files if file.exists()]:
                terms[encoder] = np.stack([_terms(part["gold"], part["found"]) for part in answers])
        drawn = {encoder: _drawn(of_seeds) for encoder, of_seeds in terms.items()}
        for encoder, of_seeds in terms.items():
            scores = scores_of(of_seeds.sum(1))
            row: dict[str, Any] = {"encoder": encoder, "typer": mode, "seeds": len(of_seeds)}
            row |= {metric: float(np.mean(scores[metric])) for metric in METRICS}
            row["macro_f1_interval"] = np.percentile(drawn[encoder], [2.5, 97.5]).tolist()
            if len(of_seeds) > 1:
                row["macro_f1_deviation"] = statistics.stdev(scores["macro_f1"].tolist())
            if encoder != "untrained" and "untrained" in terms:
                plain = float(np.mean(scores_of(terms["untrained"].sum(1))["macro_f1"]))
                row["gain"] = row["macro_f1"] - plain
                row["gain_interval"] = np.percentile(
                    drawn[encoder] - drawn["untrained"], [2.5, 97.5]
                ).tolist()
            table.append(row)
    return table


def _missing(planned: Sequence[Run], runs: Path) -> str:
    """Which rows are not there, as a sentence."""
    found = [f"{r.encoder}, {r.mode}" for r in planned if not (r.out(runs) / SCORED).exists()]
    return f"Not finished, and so not here: {'; '.join(dict.fromkeys(found))}." if found else ""


def _terms(gold: Sequence[Sequence[list[str]]], found: Sequence[Sequence[list[str]]]) -> np.ndarray:
    """The sums over the mentions of each document: [documents, 9]."""
    types = type_tables(list(chain.from_iterable(gold)), list(chain.from_iterable(found)))
    of_mentions = types.of(np.ones(len(types.types), bool)).terms()
    terms = np.zeros((len(gold), of_mentions.shape[1]))
    np.add.at(terms, np.repeat(np.arange(len(gold)), [len(of) for of in gold]), of_mentions)
    return terms


def _drawn(of_seeds: np.ndarray) -> np.ndarray:
    """Macro F1, the mean over seeds, of the same draws of documents for all encoders; [RESAMPLES]."""
    rng, items = np.random.default_rng(0), of_seeds.shape[1]
    rows = (rng.integers(0, items, items) for _ in range(RESAMPLES))
    return np.stack([scores_of(of_seeds[:, row].sum(1))["macro_f1"].mean() for row in rows])


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/typing"))
    parser.add_argument("--corpus", choices=CORPORA, default="ufet", help="whose types are learned")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    for name, of_what in (("--cut", "both pre-trainings"), ("--cut-typers", "all typers")):
        parser.add_argument(name, nargs="+", default=[], metavar="KEY=VALUE", help=f"set for {of_what}")
    parser.add_argument("--genres", nargs="+", default=[], help="of GUM, in place of all documents")
    parser.add_argument("--rates", nargs="+", default=RATES, help="of the head over a frozen encoder")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--finished", action="store_true", help="train nothing, and write what is finished")
    parser.add_argument("--json", action="store_true")
    add_out_folder(parser)
    options = parser.parse_args()
    runs, corpus = options.runs.resolve(), CORPORA[options.corpus]()
    cut = Cut(options.cut, options.genres, options.cut_typers, options.rates)
    name, seeds = options.corpus, options.seeds
    planned = [Run(name, e, mode, seed) for seed in seeds for mode in options.modes for e in ENCODERS]
    torch.set_num_threads(1)
    if not (options.table or options.finished):
        for run in planned:
            score(run, corpus, runs, cut)
    table = rows(planned, runs, cut)
    shown = measured(
        table,
        dict.fromkeys((*METRICS, "gain", *CHAIN_METRICS), "%"),
        n=lambda row: row["seeds"],
        headline="macro_f1",
        where=lambda row: row["encoder"] == "coreference chains",
    )
    if not options.table:
        folders = [run.out(runs) / str(n) for run in planned for n in range(len(cut.settings(run.mode)))]
        record(
            "typing_results",
            options.out / f"typing_{name}.json",
            origin_of([*folders, *(runs / encoder.replace(" ", "_") for encoder in PRETRAINING)]),
            title=f"Typing: {corpus.title}, and what pre-training adds",
            section="Typing",
            task="typer",
            conditions=" ".join(str(__doc__).split("\n\n")[2].split())
            + "".join(f" {sentence}" for sentence in (cut.words(), _missing(planned, runs)) if sentence)
            + " One seed of each pre-training. Published: ALBERT and RoBERTa, on 4 million news stories.",
            seeds=tuple(seeds),
            uncertainty="Intervals are of 95 %, over the documents asked (a mention each in UFET), those of "
            "gain paired; ± is over seeds.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
