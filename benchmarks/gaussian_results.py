"""The figures of Gaussian contrastive pre-training: does a tagger gain by it? (papers/004, table 1)

    python -m benchmarks.gaussian_results --runs runs/gaussian            # all; goes on where it was cut off
    python -m benchmarks.gaussian_results --runs runs/gaussian --table    # trains and writes nothing

Spanish clinical text and the embedded encoder, which is an English one. A tagger learns a small part of a
corpus three ways: from the encoder as it is; after the pre-training of jobs/recipes/gaussian_livingner.yaml
on the small parts of both corpora, mixed; and from the encoder as it is, with as many more epochs as make
it read at least as many words as pre-training and tagger together. Nothing is chosen by a score: all
settings were fixed beforehand, and the weights are those after the last step.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, origin_of, record
from benchmarks.gaussian_material import TYPES, material, words_of
from benchmarks.results_page import table as tables
from benchmarks.span_counts import counts_of, f1, interval, resampled
from benchmarks.trainings import RECIPES, train
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.gaussian.task import GaussianOptions
from rayner.tasks.registry import train_task

RECIPE = RECIPES / "gaussian_livingner.yaml"
PRETRAINING_EPOCHS, TAGGER_EPOCHS = 3, 5
PRETRAINING = (
    "corpus.annotated={}",
    "corpus.dev_fraction=0",
    f"training.epochs={PRETRAINING_EPOCHS}",
    "training.learning_rate=2e-4",
)
"""The rate is the default of all tasks; the paper's 5e-5 is for encoders five times as large."""
TAGGER = ("training.tokens_per_step=512", "training.learning_rate=2e-4")
WAYS = ("encoder as it is", "pre-trained", "more epochs")
SCORED = "counts.json"
NEIGHBOURS = "neighbours.json"
CONDITIONS = """all-MiniLM-L6-v2 (English; papers/004 has Spanish BERT and XLM-R). Parts are drawn by a
hash. LivingNER: 200 sentences of its re-split validation file to learn from, 1,000 others to score; its
documents are not told, so that sentences of one case may be in both, but no text is; sentences of 30
letters or more that PharmaCoNER has too were left out. PharmaCoNER: 12 of 500 training cases to learn from.
Pre-training: both small parts, 3 epochs. Tagger: 5 epochs, or as many as reach the words of both ("more
epochs"). `words_read` counts words between spaces. Sizes and settings were fixed before any score, by what
one thread of a shared machine could train in half an hour; the last step scores. Nearest neighbours: words
of the small part are asked about further 150 sentences or 8 cases of the training parts."""
PHARMACONER = " Taggers on PharmaCoNER are scored on 40 of its 250 validation cases."


class Run(NamedTuple):
    """One tagger."""

    corpus: str
    way: str
    seed: int

    def out(self, runs: Path) -> Path:
        """Its folder."""
        return runs / f"{self.corpus}_{self.way.replace(' ', '_')}_{self.seed}"


def planned(seeds: Sequence[int], more: Sequence[int], pharmaconer: Sequence[int]) -> list[Run]:
    """The runs, the most telling first."""
    runs = [Run("livingner", way, seed) for seed in seeds for way in WAYS[:2]]
    runs += [Run("livingner", WAYS[2], seed) for seed in more]
    return runs + [Run("pharmaconer", way, seed) for seed in pharmaconer for way in WAYS[:2]]


def more_epochs(files: Mapping[str, Mapping[str, Path]], corpus: str) -> int:
    """Epochs of a tagger alone that read at least what pre-training and tagger read together."""
    mixed = sum(words_of(parts["train"]) for parts in files.values())
    return TAGGER_EPOCHS + math.ceil(PRETRAINING_EPOCHS * mixed / words_of(files[corpus]["train"]))


def pretrained(seed: int, files: Mapping[str, Mapping[str, Path]], runs: Path) -> Path:
    """The checkpoint of the pre-training with a seed."""
    out = runs / f"pretraining_{seed}"
    corpora = ",".join(str(parts["train"]) for parts in files.values())
    train(RECIPE, out, [*PRETRAINING, f"corpus.train=[{corpora}]", f"seed={seed}"])
    return out / "best"


def neighbours(seed: int, files: Mapping[str, Mapping[str, Path]], runs: Path) -> None:
    """F1 by nearest neighbours, with the heads before their training and after it."""
    out = runs / f"pretraining_{seed}"
    if (out / NEIGHBOURS).exists():
        return
    loaded = load_checkpoint(pretrained(seed, files, runs))
    torch.manual_seed(seed)
    task = train_task(loaded.recipe)
    models = {"before": (task, task.build()), "after": (loaded.task, loaded.model)}
    scores: dict[str, dict[str, float]] = {}
    for corpus, parts in files.items():
        options = GaussianOptions(support=parts["train"])
        for when, (of, model) in models.items():
            counts = counts_of(of.predictor(model, options), [parts["dev"]], TYPES[corpus])
            scores.setdefault(corpus, {})[when] = float(f1(counts.sum(0)))
    (out / NEIGHBOURS).write_text(json.dumps(scores), encoding="utf-8")


def score(run: Run, files: Mapping[str, Mapping[str, Path]], runs: Path) -> None:
    """Train a tagger, and keep its counts on the test part."""
    out = run.out(runs)
    if (out / SCORED).exists():
        return
    parts = files[run.corpus]
    epochs = more_epochs(files, run.corpus) if run.way == "more epochs" else TAGGER_EPOCHS
    changes = [*TAGGER, f"training.epochs={epochs}", f"seed={run.seed}"]
    if run.way == "pre-trained":
        changes.append(f"encoder={pretrained(run.seed, files, runs)}")
    recipe = runs / "corpora" / f"tagger_{run.corpus}.yaml"
    types = [{"name": name} for name in TYPES[run.corpus]]
    # JSON is YAML.
    described = {"task": "tagger", "corpus": {"train": [str(parts["train"])]}, "types": types}
    recipe.write_text(json.dumps(described), encoding="utf-8")
    train(recipe, out, changes)
    loaded = load_checkpoint(out / "best")
    counts = counts_of(loaded.predictor(), [parts["test"]], TYPES[run.corpus])
    (out / SCORED).write_text(json.dumps(counts.tolist()), encoding="utf-8")


def rows(plan: Sequence[Run], files: Mapping[str, Mapping[str, Path]], runs: Path) -> list[dict[str, Any]]:
    """One row for each corpus and way: the mean over seeds, and how much more than the tagger alone."""
    table = []
    mixed = sum(words_of(parts["train"]) for parts in files.values())
    for corpus in TYPES:
        words = words_of(files[corpus]["train"])
        read = {
            "encoder as it is": TAGGER_EPOCHS * words,
            "pre-trained": TAGGER_EPOCHS * words + PRETRAINING_EPOCHS * mixed,
            "more epochs": more_epochs(files, corpus) * words,
        }
        counts = {
            (run.way, run.seed): np.array(json.loads((run.out(runs) / SCORED).read_text("utf-8")))
            for run in plan
            if run.corpus == corpus and (run.out(runs) / SCORED).exists()
        }
        for way in WAYS:
            seeds = sorted(seed for of, seed in counts if of == way)
            if not seeds:
                continue
            of_way = np.stack([counts[way, seed] for seed in seeds])
            by_seed = f1(of_way.sum(1)).tolist()
            total = of_way.sum((0, 1))
            row: dict[str, Any] = {"corpus": corpus, "way": way, "words_read": read[way]}
            row |= {"seeds": len(seeds), "f1": statistics.mean(by_seed)}
            row["f1_interval"] = interval(resampled(of_way))
            if len(seeds) > 1:
                row["f1_deviation"] = statistics.stdev(by_seed)
            row |= {"precision": total[0] / max(1, total[1]), "recall": total[0] / max(1, total[2])}
            row["f1_of_each_seed"] = by_seed
            others = {"gain": WAYS[0], "over_more_epochs": WAYS[2]} if way == WAYS[1] else {"gain": WAYS[0]}
            for key, other in others.items():
                # Of the seeds that both have.
                both = [seed for seed in seeds if (other, seed) in counts]
                if both and way != other:
                    ours, theirs = (np.stack([counts[w, seed] for seed in both]) for w in (way, other))
                    row[key] = float(f1(ours.sum(1)).mean() - f1(theirs.sum(1)).mean())
                    row[f"{key}_interval"] = interval(resampled(ours) - resampled(theirs))
            table.append(row)
    for corpus in TYPES:
        found = [
            json.loads(file.read_text("utf-8")) for file in sorted(runs.glob(f"pretraining_*/{NEIGHBOURS}"))
        ]
        for when in ("before", "after") if found else ():
            values = [scores[corpus][when] for scores in found]
            row = {"corpus": corpus, "way": f"nearest neighbours {when} pre-training"}
            row |= {"seeds": len(values), "dev_f1": statistics.mean(values)}
            if len(values) > 1:
                row["dev_f1_deviation"] = statistics.stdev(values)
            table.append(row)
    return table


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/gaussian"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--more", nargs="*", type=int, default=[1], help="seeds of the way 'more epochs'")
    parser.add_argument("--pharmaconer", nargs="*", type=int, default=[1], help="seeds of this corpus")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out(parser, "gaussian_spanish")
    options = parser.parse_args()
    runs = options.runs.resolve()
    plan = planned(options.seeds, options.more, options.pharmaconer)
    files = material(runs)
    if not options.table:
        torch.set_num_threads(1)
        for run in plan:
            score(run, files, runs)
        for seed in sorted({run.seed for run in plan if run.way == "pre-trained"}):
            neighbours(seed, files, runs)
    table = rows(plan, files, runs)
    units: dict[str, str] = dict.fromkeys(
        ("f1", "precision", "recall", "f1_of_each_seed", "gain", "over_more_epochs", "dev_f1"), "%"
    )
    shown = measured(
        table,
        units,
        n=lambda row: row["seeds"],
        headline="gain",
        where=lambda row: row["way"] == "pre-trained",
    )
    if not options.table:
        folders = [run.out(runs) for run in plan]
        folders += [runs / f"pretraining_{run.seed}" for run in plan]
        record(
            "gaussian_results",
            options.out,
            origin_of(folders),
            title="Gaussian contrastive pre-training: Spanish clinical text",
            section="Pre-training",
            task="gaussian and tagger",
            conditions=" ".join(CONDITIONS.split()) + (PHARMACONER if options.pharmaconer else ""),
            seeds=tuple(sorted({run.seed for run in plan})),
            uncertainty="Intervals are of 95 %, over sentences (LivingNER) or cases (PharmaCoNER) of the "
            "test part, those of gain paired, of the seeds that both ways have; ± is over seeds.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
