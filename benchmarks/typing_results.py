"""The figures of fine-grained typing: does the pre-training of its encoder pay? (papers/003, tables 1 and 2)

    python -m benchmarks.typing_results --runs runs/typing            # all; goes on where it was cut off
    python -m benchmarks.typing_results --runs runs/typing --table    # trains and writes nothing

Three encoders: the embedded one as it is; the same after masked language modelling on the documents of
jobs/recipes/chains_litbank.yaml; and after that recipe, with as many steps. On each a linear head over head
words learns the types of UFET's crowd-annotated training part, with the encoder frozen and tuned. Thresholds,
and the head's learning rate where the encoder is frozen, are chosen on a slice of that part; UFET's dev
scores once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out, keep_origin, measured, origin_of, record
from benchmarks.results_page import table as tables
from rayner.errors import RaynerError
from rayner.metrics.typed_mentions import typed_items
from rayner.metrics.typing import scores_of, type_tables
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, task_of

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ROOT / "jobs" / "recipes"
PRETRAINING: Mapping[str, Sequence[str]] = {
    "masked language modelling": ("loss.contrast_weight=0", "masking.mentions=none"),
    "coreference chains": (),
}
ENCODERS = ("untrained", *PRETRAINING)
MODES: Mapping[str, Sequence[Sequence[str]]] = {
    "frozen": [
        ("model.train_encoder=false", "training.epochs=40", f"training.head_learning_rate={rate}")
        for rate in ("1e-3", "3e-3", "1e-2")
    ],
    "tuned": [("training.epochs=8", "training.learning_rate=1e-4", "training.head_learning_rate=3e-3")],
}
"""What is set for each way, and, of several settings, chosen on the slice of train."""
TYPING = (
    "corpus.dev=[]",
    "corpus.dev_fraction=0.2",
    "model.mention_encoding=head",
    "model.head=linear",
    "decoding.threshold=tuned",
)
METRICS = ("accuracy", "macro_precision", "macro_recall", "macro_f1", "micro_f1")
SCORED = "items.json"
RESAMPLES = 2000


class Run(NamedTuple):
    """One typer."""

    encoder: str
    mode: str
    seed: int

    def out(self, runs: Path) -> Path:
        """Its folder."""
        return runs / f"{self.encoder.replace(' ', '_')}_{self.mode}_{self.seed}"


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


def encoder_of(name: str, runs: Path, cut: Sequence[str] = ()) -> str:
    """The encoder after its pre-training, at its end: as many steps as the other pre-training had.

    Args:
        cut: what is set for both pre-trainings.
    """
    if name == "untrained":
        return load_recipe(RECIPES / "typer_ufet.yaml").encoder
    out = runs / name.replace(" ", "_")
    train("chains_litbank.yaml", out, (*PRETRAINING[name], *cut))
    return str(out / "last")


def score(run: Run, runs: Path, cut: Sequence[str] = ()) -> None:
    """Train a typer in each setting, take the best of the slice, and keep the types of dev's mentions."""
    out = run.out(runs)
    if (out / SCORED).exists():
        return
    encoder, tried = encoder_of(run.encoder, runs, cut), []
    for number, settings in enumerate(MODES[run.mode]):
        changes = [*TYPING, *settings, f"encoder={encoder}", f"seed={run.seed}"]
        printed = train("typer_ufet.yaml", out / str(number), changes)
        tried.append((printed["metrics"]["macro_f1"], number))
    best = max(tried)[1]
    loaded = load_checkpoint(out / str(best) / "best")
    predictor = loaded.task.predictor(loaded.model)
    assert predictor is not None
    dev = load_recipe(RECIPES / "typer_ufet.yaml").corpus.dev
    kind = task_of("typer").kind
    gold = list(kind.read([Path(path) for path in dev], "auto", loaded.recipe, predictor).items)
    right, found = typed_items(gold, list(predict(predictor, gold)))
    rows = {"setting": list(MODES[run.mode][best]), "gold": [sorted(t) for t in right]}
    (out / SCORED).write_text(json.dumps(rows | {"found": [sorted(t) for t in found]}), encoding="utf-8")


def rows(planned: Sequence[Run], runs: Path) -> list[dict[str, Any]]:
    """One row for each encoder and way: the mean over seeds, and how much more than untrained."""
    table = []
    for mode in MODES:
        terms: dict[str, np.ndarray] = {}
        for encoder in ENCODERS:
            files = [r.out(runs) / SCORED for r in planned if (r.encoder, r.mode) == (encoder, mode)]
            if found := [json.loads(file.read_text("utf-8")) for file in files if file.exists()]:
                terms[encoder] = np.stack([_terms(part["gold"], part["found"]) for part in found])
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


def _terms(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> np.ndarray:
    """[items, 9]"""
    tables_ = type_tables(gold, found)
    return tables_.of(np.ones(len(tables_.types), bool)).terms()


def _drawn(of_seeds: np.ndarray) -> np.ndarray:
    """Macro F1, the mean over seeds, of the same draws of items for all encoders; [RESAMPLES]."""
    rng, items = np.random.default_rng(0), of_seeds.shape[1]
    rows = (rng.integers(0, items, items) for _ in range(RESAMPLES))
    return np.stack([scores_of(of_seeds[:, row].sum(1))["macro_f1"].mean() for row in rows])


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/typing"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument(
        "--cut",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="set for both pre-trainings",
    )
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out(parser, "typing_ufet")
    options = parser.parse_args()
    runs = options.runs.resolve()
    planned = [Run(e, m, seed) for seed in options.seeds for m in options.modes for e in ENCODERS]
    if not options.table:
        torch.set_num_threads(1)
        for run in planned:
            score(run, runs, options.cut)
    table = rows(planned, runs)
    shown = measured(
        table,
        dict.fromkeys((*METRICS, "gain"), "%"),
        n=lambda row: row["seeds"],
        headline="macro_f1",
        where=lambda row: row["encoder"] == "coreference chains",
    )
    if not options.table:
        folders = [run.out(runs) / str(n) for run in planned for n in range(len(MODES[run.mode]))]
        record(
            "typing_results",
            options.out,
            origin_of([*folders, *(runs / name.replace(" ", "_") for name in PRETRAINING)]),
            title="Typing: UFET, and what pre-training adds",
            section="Typing",
            task="typer",
            conditions=" ".join(str(__doc__).split("\n\n")[2].split())
            + (f" Both pre-trainings were cut: {', '.join(options.cut)}." if options.cut else "")
            + " One seed of each pre-training. Published: ALBERT and RoBERTa, on 4 million news stories.",
            seeds=tuple(options.seeds),
            uncertainty="Intervals are of 95 %, over dev's mentions, those of gain paired; ± is over seeds.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
