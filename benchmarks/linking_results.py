"""The figures of linking: cross-validation on ESAppMod, and held-out mentions of diseases.

    python -m benchmarks.linking_results --runs runs/linking            # all; goes on where it was cut off
    python -m benchmarks.linking_results --runs runs/linking --table    # trains and writes nothing

For each fold and seed it trains the corpus's recipe on what the fold leaves, in a process of its own with one
thread, and asks the held-out mentions of two indexes: of the names alone (as published), and of the names and
the mentions that were trained on. Each is asked by vectors alone, by n-grams alone, and by both, with the
what combines them fitted on training mentions that the recipe held out. "untrained" is the encoder as it is.
NIL is the area under the ROC, against the names of entities that are not in the index and mentions of other
domains. What each mention got is kept beside the scores, so that gains are paired mention by mention: of the
trained encoder to the untrained one, both with n-grams, and to the runs of --against, trained otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.command import call_main
from benchmarks.figures import (
    ROOT,
    add_out_folder,
    keep_origin,
    measured,
    origin_of,
    precision_of,
    record,
)
from benchmarks.linking_material import Material, load_material
from benchmarks.linking_runs import FIGURES, LINKED, SCORES, SETTINGS, WAYS, Run, gains, rows
from benchmarks.results_page import table as tables
from rayner.config import StandardizerRecipe
from rayner.config.recipe_files import changed_keys
from rayner.data.mention_strings import MentionString
from rayner.metrics.linking import RANKS, judge, score_linking
from rayner.retrieval.build import build_index
from rayner.retrieval.entity_index import EntityIndex
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, parse_recipe
from rayner.tasks.standardizer.fitting import fit
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.strings import hold_out, with_mentions
from rayner.tasks.standardizer.task import StandardizerTask

TRIALS = {"esappmod": 5, "ncbi": 1, "bc5cdr": 1}
"""How many of the five folds are asked: diseases train too long for all."""
TITLES = {
    "esappmod": "Linking: ESAppMod",
    "ncbi": "Linking: diseases of NCBI-disease to MEDIC",
    "bc5cdr": "Linking: diseases of BC5CDR to MEDIC",
}
CONDITIONS = {
    "esappmod": """Folds of a fifth of the training mentions are held out. No query equals a name or another
mention, case ignored, and of those left the 15 % most like another name of their entity are not asked.""",
    **dict.fromkeys(
        ("ncbi", "bc5cdr"),
        """A fifth of the training mentions that equal no name of MEDIC and no other mention, case ignored, is
held out and asked: one of five folds, for time.""",
    ),
}
UNCERTAINTY = """± is the standard deviation over seeds, each the mean of its folds; n is folds x seeds.
Gains are of top 1 in points, paired mention by mention, with the 95 % interval of a bootstrap over
mentions."""


def recipe_of(run: Run, changes: Sequence[str] = ()) -> StandardizerRecipe:
    """A run's recipe, less the files of its fold."""
    recipe = load_recipe(run.recipe, changes)
    assert isinstance(recipe, StandardizerRecipe)
    return recipe


def settings_of(run: Run, changes: Sequence[str]) -> StandardizerRecipe:
    """What a finished run is compared by."""
    return recipe_of(run, [f"seed={run.seed}", *changes])


def changed_since(run: Run, runs: Path, changes: Sequence[str]) -> list[str]:
    """The keys that said something else when a finished run was trained; none where it does not say."""
    file = run.out(runs) / FIGURES
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if SETTINGS not in found:
        return []
    return changed_keys(parse_recipe(found[SETTINGS], str(file)), settings_of(run, changes))


def refuse_others(planned: Sequence[Run], runs: Path, changes: Sequence[str]) -> None:
    """Exit with 2 where finished runs were trained otherwise."""
    if changed := {run: keys for run in planned if (keys := changed_since(run, runs, changes))}:
        for run, keys in changed.items():
            what = f"was trained with another {', another '.join(keys)}"
            print(f"{run.out(runs)}: {what}; remove it, name another --runs, or --set them", file=sys.stderr)
        sys.exit(2)


def train(run: Run, runs: Path, material: Material, changes: Sequence[str]) -> int:
    """Train, or go on with, a run in a process of its own, and ask the held-out mentions; the exit status."""
    out = run.out(runs)
    if (out / FIGURES).exists():
        return 0
    set_ = changes_of(run, runs, changes)
    if status := train_fold(run, runs, material, set_):
        return status
    training = run.training(runs)
    loaded = load_checkpoint(training / "best")
    seconds = json.loads((training / "result.json").read_text("utf-8"))["seconds"]
    found: dict[str, Any] = {"seconds": seconds, "asked": [m.text for m in material.folds[run.fold].test]}
    found["trained"] = ask(loaded.task, loaded.model, material, run.fold)
    found[SETTINGS] = settings_of(run, changes).model_dump(mode="json")
    if run.seed == 1:
        task = StandardizerTask(recipe_of(run, set_))
        found["untrained"] = ask(task, task.build().eval(), material, run.fold)
    keep_origin(out)
    (out / FIGURES).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


def changes_of(run: Run, runs: Path, changes: Sequence[str]) -> list[str]:
    """What a run changes of its recipe: the files of its fold, its seed, and further `changes`."""
    out = run.out(runs)
    return [
        f"knowledge_base.paths=[{out / 'entities.jsonl'}]",
        f"mentions.train=[{out / 'train.jsonl'}]",
        "mentions.types=[]",
        f"seed={run.seed}",
        *changes,
    ]


def train_fold(run: Run, runs: Path, material: Material, changes: Sequence[str]) -> int:
    """Train, or go on with, a run by all its changes, in a process of its own; the exit status.

    By which code is noted once it has ended.
    """
    out, training = run.out(runs), run.training(runs)
    was_finished = (training / "result.json").exists()
    out.mkdir(parents=True, exist_ok=True)
    rows = [{"mention": m.text, "entity_id": list(m.entity_ids)} for m in material.folds[run.fold].train]
    _write(out / "train.jsonl", rows)
    _write(out / "entities.jsonl", [asdict(entity) for entity in material.entities])
    command = [sys.executable, "-m", "rayner", "train", str(run.recipe), "--out", str(training)]
    command += ["--workers", "0", "--json", *(word for change in changes for word in ("--set", change))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    with (out / "train.log").open("a") as log:
        status = subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=ROOT).returncode
    if not (status or was_finished):
        keep_origin(training)
    return status


def ask(task: Any, model: nn.Module, material: Material, fold: int) -> dict[str, Any]:
    """The scores of a fold's queries: index -> way -> metrics, and `ranks`, that of the first right candidate
    of each, 0 where none is right.

    Both sides are combined, and NIL is calibrated, on training mentions that the recipe held out, with an
    index that does not have them; then they join it.
    """
    train, test = material.folds[fold]
    held_out = hold_out(train, material.entities, task.recipe.mentions.dev_fraction)
    strings = {mention.text for mention in held_out}
    kept = [mention for mention in train if mention.text not in strings]

    def encode(texts: Sequence[str]) -> np.ndarray:
        return task.encode(model, texts)

    def index_of(mentions: Sequence[MentionString]) -> EntityIndex:
        entities = with_mentions(material.entities, mentions)
        return build_index(entities, encode, task.recipe.index, task.recipe.loss.learned_distance)

    kinds = {"nil_auc": [m for nil in material.nil.values() for m in nil]}
    kinds |= {f"nil_auc_{kind}": nil for kind, nil in material.nil.items()}
    scores: dict[str, Any] = {}
    for name, fitting, indexed in (("names", [], []), ("names and mentions", kept, train)):
        fitted = fit(index_of(fitting), held_out, encode([m.text for m in held_out]))
        index = index_of(indexed)
        for way, weight in WAYS.items():
            weight = fitted.weight if weight is None else weight
            nil = fitted.nil if way == "both" else None
            standardizer = Standardizer(index, encode, weight, nil, top_k=RANKS)
            answers = list(predict(standardizer, test))
            rank = judge(test, answers).rank
            metrics = {key: score_linking(test, answers)[key] for key in LINKED}
            for key, strange in kinds.items():
                of_both = [*answers, *predict(standardizer, strange)]
                metrics[key] = score_linking([*test, *strange], of_both)["nil_auc"]
            ranks = np.where(np.isfinite(rank), rank, 0).astype(int).tolist()
            scores.setdefault(name, {})[way] = {**metrics, "ranks": ranks}
    return scores


def write(corpus: str, planned: Sequence[Run], runs: Path, out: Path, against: Path | None = None) -> None:
    """The file of a corpus."""
    finished = [run for run in planned if (run.out(runs) / FIGURES).exists()]
    found, gained = (
        [{k: v for k, v in row.items() if k != "corpus"} for row in table]
        for table in (rows(finished, runs), gains(finished, runs, against))
    )
    shown = measured(
        found,
        dict.fromkeys(SCORES, "%"),
        n=lambda row: row["folds"] * row["seeds"],
        headline="top1",
        where=lambda row: (row["encoder"], row["by"]) == ("trained", "both"),
    )
    shown += measured(gained, {"gain": "%"})
    record(
        "linking_results",
        out / f"linking_{corpus}.json",
        origin_of(run.out(runs) for run in finished),
        title=TITLES[corpus],
        section="Linking",
        task="standardizer",
        conditions=CONDITIONS[corpus].replace("\n", " "),
        precision=precision_of(run.training(runs) for run in finished),
        seeds=tuple(sorted({run.seed for run in finished})),
        uncertainty=UNCERTAINTY.replace("\n", " "),
        rows=shown,
    )


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/linking"))
    parser.add_argument("--only", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--folds", nargs="+", type=int, help="some of them, from 0")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--set", action="append", default=[], help="key=value changes of the recipes")
    parser.add_argument("--against", type=Path, help="the --runs of another training, for paired gains")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out_folder(parser)
    options = parser.parse_args()
    runs = options.runs.resolve()
    planned = [
        Run(corpus, fold, seed)
        for corpus in options.only
        for seed in options.seeds
        for fold in (options.folds or range(TRIALS[corpus]))
    ]
    refuse_others(planned, runs, options.set)
    failed = []
    if not options.table:
        torch.set_num_threads(1)
        material = {corpus: load_material(corpus, recipe_of(Run(corpus, 0, 1))) for corpus in options.only}
        with ThreadPoolExecutor(options.parallel) as pool:
            codes = pool.map(lambda run: train(run, runs, material[run.corpus], options.set), planned)
            failed = [run for run, code in zip(planned, codes, strict=True) if code]
    table = rows(planned, runs)
    for corpus in () if options.table else dict.fromkeys(row["corpus"] for row in table):
        of_corpus = [run for run in planned if run.corpus == corpus]
        write(corpus, of_corpus, runs, options.out, options.against)
    table += gains(planned, runs, options.against)
    shown = measured(table, dict.fromkeys((*SCORES, "gain"), "%"))
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))
    for run in failed:
        print(f"failed: see {run.out(runs) / 'train.log'}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    call_main(main)
