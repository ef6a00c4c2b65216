"""What the benchmarks of typing share: encoders pre-trained on chains, and typers that are scored once."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import Row, origin_of, precision_of, record
from benchmarks.results_page import table as tables
from benchmarks.trainings import RECIPES, train
from benchmarks.typing_corpora import TypedCorpus
from rayner.errors import RaynerError
from rayner.metrics.typed_mentions import typed_items
from rayner.metrics.typing import scores_of, type_tables
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, task_of

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
SCORED = "items.json"
RESAMPLES = 2000


class Cut(NamedTuple):
    """What a quicker run than the whole one leaves out.

    Attributes:
        pretraining: KEY=VALUE of all pre-trainings.
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
            parts.append(f"The pre-trainings read GUM's {' and '.join(self.genres)} alone.")
        if self.pretraining:
            parts.append(f"The pre-trainings were cut: {', '.join(self.pretraining)}.")
        if self.typers:
            parts.append(f"The typers were cut: {', '.join(self.typers)}.")
        if tuple(self.rates) != RATES:
            parts.append(f"Learning rates of the head over frozen encoders: {', '.join(self.rates)} alone.")
        return " ".join(parts)

    def documents(self) -> tuple[str, ...]:
        """The documents of the pre-trainings, where they are cut to some genres."""
        if not self.genres:
            return ()
        train, dev = self.parts()
        return f"corpus.train={json.dumps(train)}", f"corpus.dev={json.dumps(dev)}"

    def parts(self) -> tuple[list[str], list[str]]:
        """The documents of the genres: those that the pre-trainings learn from, and those of dev."""
        corpus = load_recipe(RECIPES / "chains_litbank.yaml").corpus
        folder = Path(os.path.expandvars(next(path for path in corpus.train if "gum" in path)))
        chosen = sorted(str(p) for genre in self.genres for p in folder.glob(f"GUM_{genre}_*.conll"))
        held_out = {os.path.expandvars(path) for path in corpus.dev}
        if not chosen:
            raise RaynerError(f"--genres: {folder} has no document of {', '.join(self.genres)}")
        train, dev = ([p for p in chosen if (p in held_out) == side] for side in (False, True))
        return train, dev


def pretrain(out: Path, changes: Sequence[str], cut: Cut) -> str:
    """Train, or go on with, an encoder on chains; the folder of its end, not of its best step, as
    pre-trainings that are compared have as many steps."""
    train(RECIPES / "chains_litbank.yaml", out, (*cut.documents(), *cut.pretraining, *changes))
    return str(out / "last")


def score(out: Path, corpus: TypedCorpus, changes: Sequence[str], tries: Sequence[Sequence[str]]) -> None:
    """Train a typer in each setting of `tries`, take the best of the slice of train, and keep in `out` the
    types of the mentions asked."""
    if (out / SCORED).exists():
        return
    tried = []
    for number, settings in enumerate(tries):
        printed = train(
            RECIPES / "typer_ufet.yaml", out / str(number), (*corpus.learning, *TYPING, *settings, *changes)
        )
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


def compared(
    outs: Mapping[str, Sequence[Path]], plain: str, control: str | None = None
) -> dict[str, dict[str, Any]]:
    """By name, of what is finished: the mean of each metric over seeds (a folder each), with its interval,
    and how much more macro F1 that is than `plain` has, and than `control`."""
    terms: dict[str, np.ndarray] = {}
    for name, of_seeds in outs.items():
        files = [out / SCORED for out in of_seeds]
        if answers := [json.loads(file.read_text("utf-8")) for file in files if file.exists()]:
            terms[name] = np.stack([_terms(part["gold"], part["found"]) for part in answers])
    drawn = {name: _drawn(of_seeds) for name, of_seeds in terms.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, of_seeds in terms.items():
        scores = scores_of(of_seeds.sum(1))
        row: dict[str, Any] = {"seeds": len(of_seeds)}
        row |= {metric: float(np.mean(scores[metric])) for metric in METRICS}
        row["macro_f1_interval"] = np.percentile(drawn[name], [2.5, 97.5]).tolist()
        if len(of_seeds) > 1:
            row["macro_f1_deviation"] = statistics.stdev(scores["macro_f1"].tolist())
        for gain, other in (("gain", plain), ("gain_over_control", control)):
            if other in terms and name not in (plain, other):
                row[gain] = row["macro_f1"] - float(np.mean(scores_of(terms[other].sum(1))["macro_f1"]))
                row[f"{gain}_interval"] = np.percentile(drawn[name] - drawn[other], [2.5, 97.5]).tolist()
        rows[name] = row
    return rows


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that both commands have."""
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    for name, of_what in (("--cut", "all pre-trainings"), ("--cut-typers", "all typers")):
        parser.add_argument(name, nargs="+", default=[], metavar="KEY=VALUE", help=f"set for {of_what}")
    parser.add_argument("--genres", nargs="+", default=[], help="of GUM, in place of all documents")
    parser.add_argument("--rates", nargs="+", default=RATES, help="of the head over a frozen encoder")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--finished", action="store_true", help="train nothing, and write what is finished")
    parser.add_argument("--json", action="store_true")


def not_finished(outs: Mapping[Path, str]) -> str:
    """Which typers' rows are not there, as a sentence; empty if all are."""
    left = dict.fromkeys(name for out, name in outs.items() if not (out / SCORED).exists())
    return f"Not finished, and so not here: {'; '.join(left)}." if left else ""


def publish(
    module: str,
    options: argparse.Namespace,
    file: str,
    table: Sequence[Mapping[str, Any]],
    shown: Sequence[Row],
    origins: Sequence[Path],
    title: str,
    sentences: Iterable[str],
) -> None:
    """Record what was measured, unless `--table` is given, and print it.

    Args:
        shown: `table` with units.
        origins: the folders of all trainings.
        sentences: the conditions; empty ones are left out.
    """
    if not options.table:
        record(
            module,
            options.out / f"{file}.json",
            origin_of(origins),
            title=f"Typing: {title}",
            section="Typing",
            task="typer",
            conditions=" ".join(filter(None, sentences)),
            precision=precision_of(origins),
            seeds=tuple(options.seeds),
            uncertainty="Intervals are of 95 %, over the documents asked (a mention each in UFET), those of "
            "gain paired; ± is over seeds.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


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
