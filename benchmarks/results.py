"""The figures of recognition: trains each recipe with each seed, and writes and prints what is finished.

    python -m benchmarks.results --runs runs/results            # all; goes on where it was cut off
    python -m benchmarks.results --runs runs/results --only ncbi --seeds 1 2 3
    python -m benchmarks.results --runs runs/results --table    # trains and writes nothing

Every run trains with one thread in a process of its own; `--parallel` says how many go at once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import (
    ROOT,
    add_out_folder,
    keep_origin,
    measured,
    origin_of,
    precision_of,
    record,
)
from benchmarks.results_page import table as tables
from rayner.config.recipe_files import corpus_paths
from rayner.data.readers import read_corpus
from rayner.data.writers import write_parquet
from rayner.data.writers.base import Losses
from rayner.data.writers.iob2 import outermost
from rayner.tasks.registry import load_recipe

RECIPES = ROOT / "jobs" / "recipes"
CORPORA = {
    "ncbi": "NCBI-disease",
    "bc5cdr": "BC5CDR",
    "bc5cdr_distant": "BC5CDR, labelled by a dictionary",
    "bc5cdr_self_training": "BC5CDR, labelled by a dictionary, with self-training",
    "wnut17": "WNUT-17",
    "litbank": "LitBank (nested)",
    "litbank_outermost": "LitBank, outermost mentions alone",
}
OUTERMOST = "_outermost"
TASKS = ("recognizer", "tagger")
UNITS = {"f1": "%", "precision": "%", "recall": "%", "minutes": "min"}
CONDITIONS = """The whole recipe, scored on the development part, which also chooses the best epoch: a little
optimistic, and equally so for both tasks. F1 is exact; one thread a training; minutes are of the clock."""


class Run(NamedTuple):
    """One training of a recipe."""

    corpus: str
    task: str
    seed: int

    @property
    def recipe(self) -> Path:
        """Its recipe."""
        return RECIPES / f"{self.task}_{self.corpus.removesuffix(OUTERMOST)}.yaml"

    def out(self, runs: Path) -> Path:
        """Its folder."""
        return runs / f"{self.task}_{self.corpus}_{self.seed}"


def changes(run: Run, runs: Path) -> list[str]:
    """What differs from the recipe: the seed, and where nested mentions are left out, corpus and decoding."""
    changed = [f"seed={run.seed}"]
    if run.corpus.endswith(OUTERMOST):
        changed.append(f"corpus.train={json.dumps([str(corpus_of_outermost(run, runs))])}")
        if run.task == "recognizer":
            changed.append("decoding.overlap=flat")
    return changed


def corpus_of_outermost(run: Run, runs: Path) -> Path:
    """The training documents of a recipe without the mentions that lie in others."""
    path = runs / f"{run.task}_{run.corpus}.parquet"
    if not path.exists():
        recipe: Any = load_recipe(run.recipe)
        documents = read_corpus(corpus_paths(recipe.corpus.train)).documents
        kept = (replace(d, mentions=tuple(outermost(d.mentions, Losses(d.document_id)))) for d in documents)
        write_parquet(kept, path)
    return path


def train(run: Run, runs: Path, precision: str) -> int:
    """Train, or go on with, a run in a process of its own; its log lies beside its folder."""
    out = run.out(runs)
    if (out / "result.json").exists():
        return 0
    command = [sys.executable, "-m", "rayner", "train", str(run.recipe), "--out", str(out)]
    command += ["--workers", "0", "--precision", precision, "--json"]
    command += [word for change in changes(run, runs) for word in ("--set", change)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    with out.with_suffix(".log").open("a") as log:
        status = subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=ROOT).returncode
    if not status:
        keep_origin(out)
    return status


def rows(planned: list[Run], runs: Path) -> list[dict[str, Any]]:
    """One row for each corpus and task of which some run is finished."""
    table = []
    for corpus, task in dict.fromkeys((run.corpus, run.task) for run in planned):
        files = [run.out(runs) / "result.json" for run in planned if (run.corpus, run.task) == (corpus, task)]
        results = [json.loads(file.read_text("utf-8")) for file in files if file.exists()]
        if results:
            f1 = [result["metrics"]["f1"] for result in results]
            table.append(
                {
                    "corpus": corpus,
                    "task": task,
                    "seeds": len(results),
                    **{
                        k: statistics.mean(r["metrics"][k] for r in results)
                        for k in ("f1", "precision", "recall")
                    },
                    "f1_deviation": statistics.stdev(f1) if len(f1) > 1 else None,
                    "minutes": statistics.mean(r["seconds"] for r in results) / 60,
                }
            )
    return table


def write(corpus: str, planned: list[Run], runs: Path, out: Path) -> None:
    """The file of a corpus."""
    finished = [run for run in planned if (run.out(runs) / "result.json").exists()]
    found = [{k: v for k, v in row.items() if k != "corpus"} for row in rows(finished, runs)]
    record(
        "results",
        out / f"recognition_{corpus}.json",
        origin_of(run.out(runs) for run in finished),
        title=f"Recognition: {CORPORA[corpus]}",
        section="Recognition",
        task=" and ".join(dict.fromkeys(run.task for run in finished)),
        conditions=CONDITIONS.replace("\n", " "),
        precision=precision_of(run.out(runs) for run in finished),
        seeds=tuple(sorted({run.seed for run in finished})),
        uncertainty="± is the standard deviation over seeds.",
        rows=measured(found, UNITS, n=lambda row: row["seeds"], headline="f1"),
    )


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument("--only", nargs="+", choices=list(CORPORA), default=list(CORPORA))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out_folder(parser)
    options = parser.parse_args()
    every = [Run(c, t, s) for c in options.only for s in options.seeds for t in options.tasks]
    planned = [run for run in every if run.recipe.exists()]
    runs = options.runs.resolve()
    runs.mkdir(parents=True, exist_ok=True)
    failed = []
    if not options.table:
        with ThreadPoolExecutor(options.parallel) as pool:
            codes = pool.map(lambda run: train(run, runs, options.precision), planned)
            failed = [run for run, code in zip(planned, codes, strict=True) if code]
    table = rows(planned, runs)
    for corpus in () if options.table else dict.fromkeys(row["corpus"] for row in table):
        write(corpus, [run for run in planned if run.corpus == corpus], runs, options.out)
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(measured(table, UNITS))))
    for run in failed:
        print(f"failed: see {run.out(runs).with_suffix('.log')}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
