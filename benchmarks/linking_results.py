"""The figures of linking in docs/results.md: cross-validation on ESAppMod, and held-out mentions of diseases.

    python -m benchmarks.linking_results --runs runs/linking            # all; goes on where it was cut off
    python -m benchmarks.linking_results --runs runs/linking --table    # trains nothing

For each fold and seed it trains the corpus's recipe on what the fold leaves, in a process of its own with one
thread, and asks the held-out mentions of two indexes: of the names alone (as published), and of the names and
the mentions that were trained on. Each is asked by vectors alone, by n-grams alone, and by both, with the
weight fitted on training mentions that the recipe held out. "untrained" is the encoder as it is. NIL is the
area under the ROC, against the names of entities that are not in the index and mentions of other domains.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.command import call_main
from benchmarks.unseen_mentions import Fold, fold, folds
from rayner.config import MentionSettings, StandardizerRecipe
from rayner.config.reading import changed_keys
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString
from rayner.data.schema import Entity
from rayner.metrics.linking import score_linking
from rayner.retrieval.build import build_index
from rayner.retrieval.entity_index import EntityIndex
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, parse_recipe
from rayner.tasks.standardizer.fitting import fit
from rayner.tasks.standardizer.predictor import Standardizer
from rayner.tasks.standardizer.strings import hold_out, load_entity_strings, with_mentions
from rayner.tasks.standardizer.task import StandardizerTask

ROOT = Path(__file__).resolve().parents[1]
TRIALS = {"esappmod": 5, "ncbi": 1, "bc5cdr": 1}
"""How many of the five folds are asked: diseases train too long for all."""
UNUSUAL = {"esappmod": 0.85, "ncbi": 1.0, "bc5cdr": 1.0}
"""The share of possible queries that are asked, the most unusual first.

With 0.85, n-grams alone find 73 % of ESAppMod's queries among names and mentions, as they do on the published
test (72.9 %, with all of the training mentions as aliases); with 1.0 they find 77 %.
"""
STRANGERS = (
    "ncbi-disease-pubtator/NCBIdevelopset_corpus.txt",
    "bc5cdr-pubtator/CDR_DevelopmentSet.PubTator.txt",
)
"""Mentions of other domains than software, all NIL."""
MOST_STRANGERS = 300
LINKED = ("top1", "top3", "top5", "mrr")
SCORES = (*LINKED, "nil_auc", "nil_auc_entities", "nil_auc_strangers")
FIGURES, SETTINGS = "figures.json", "settings"
"""A finished run's file, and its key of the recipe as it was then, which files of earlier runs lack."""
WAYS = {"vectors": 0.0, "n-grams": math.inf, "both": None}
"""The weight of the lexical side; None is fitted."""


class Run(NamedTuple):
    """One training."""

    corpus: str
    fold: int
    seed: int

    @property
    def recipe(self) -> Path:
        """Its recipe."""
        return ROOT / "jobs" / "recipes" / f"standardizer_{self.corpus}.yaml"

    def out(self, runs: Path) -> Path:
        """Its folder."""
        return runs / f"{self.corpus}_{self.fold}_{self.seed}"


class Material(NamedTuple):
    """What a corpus gives: the entities of the index, the folds, and mentions that are NIL, by their kind."""

    entities: list[Entity]
    folds: list[Fold]
    nil: dict[str, list[MentionString]]


def load_material(corpus: str) -> Material:
    """Read the corpus of a recipe."""
    recipe = _recipe(Run(corpus, 0, 1))
    asked = MentionSettings(dev=recipe.mentions.train, types=recipe.mentions.types, are_aliases=False)
    strings = load_entity_strings(recipe.model_copy(update={"mentions": asked}))
    mentions = [m for m in strings.dev if m.entity_ids]
    entities, nil = list(strings.indexed), dict[str, list[MentionString]]()
    if corpus == "esappmod":
        meant = {id_ for mention in mentions for id_ in mention.entity_ids}
        left_out = [entity for entity in entities if entity.entity_id not in meant]
        entities = [entity for entity in entities if entity.entity_id in meant]
        nil = {"entities": _unknown(left_out, entities, mentions), "strangers": _strangers()}
    return Material(entities, folds(entities, mentions, 5, UNUSUAL[corpus]), nil)


def _recipe(run: Run, changes: Sequence[str] = ()) -> StandardizerRecipe:
    recipe = load_recipe(run.recipe, changes)
    assert isinstance(recipe, StandardizerRecipe)
    return recipe


def _unknown(
    left_out: Sequence[Entity], entities: Sequence[Entity], mentions: Sequence[MentionString]
) -> list[MentionString]:
    """The names of entities that are not in the index, and that nothing in it is called.

    The catalogue has two thirds of them twice, under another id with the mark `|*` or without `Cloud<>`: what
    is in the index is then the right answer.
    """
    known = {_unmarked(e.name) for e in entities} | {_unmarked(m.text) for m in mentions}
    return [MentionString(e.name, ()) for e in left_out if _unmarked(e.name) not in known]


def _unmarked(name: str) -> str:
    return fold(name.removeprefix("Cloud<>").removesuffix("|*"))


def _strangers() -> list[MentionString]:
    data = Path(os.environ.get("RAYNER_DATA", ROOT.parent / "shared" / "data"))
    texts = sorted({m.text for path in STRANGERS for m in read_mention_strings(data / path).mentions})
    return [MentionString(text, ()) for text in random.Random(0).sample(texts, MOST_STRANGERS)]


def settings_of(run: Run, changes: Sequence[str]) -> StandardizerRecipe:
    """The recipe of a run, less the files of its fold."""
    return _recipe(run, [f"seed={run.seed}", *changes])


def changed_since(run: Run, runs: Path, changes: Sequence[str]) -> list[str]:
    """The keys that said something else when a finished run was trained; none where it does not say."""
    file = run.out(runs) / FIGURES
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if SETTINGS not in found:
        return []
    return changed_keys(parse_recipe(found[SETTINGS], str(file)), settings_of(run, changes))


def train(run: Run, runs: Path, material: Material, changes: Sequence[str]) -> int:
    """Train, or go on with, a run in a process of its own, and ask the held-out mentions; the exit status."""
    out = run.out(runs)
    if (out / FIGURES).exists():
        return 0
    out.mkdir(parents=True, exist_ok=True)
    rows = [{"mention": m.text, "entity_id": list(m.entity_ids)} for m in material.folds[run.fold].train]
    _write(out / "train.jsonl", rows)
    _write(out / "entities.jsonl", [asdict(entity) for entity in material.entities])
    set_ = [
        f"knowledge_base.paths=[{out / 'entities.jsonl'}]",
        f"mentions.train=[{out / 'train.jsonl'}]",
        "mentions.types=[]",
        f"seed={run.seed}",
        *changes,
    ]
    command = [sys.executable, "-m", "rayner.cli", "train", str(run.recipe), "--out", str(out / "run")]
    command += ["--workers", "0", "--json", *(word for change in set_ for word in ("--set", change))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    with (out / "train.log").open("a") as log:
        status = subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=ROOT).returncode
    if status:
        return status
    loaded = load_checkpoint(out / "run" / "best")
    seconds = json.loads((out / "run" / "result.json").read_text("utf-8"))["seconds"]
    found = {"seconds": seconds, "trained": ask(loaded.task, loaded.model, material, run.fold)}
    found[SETTINGS] = settings_of(run, changes).model_dump(mode="json")
    if run.seed == 1:
        task = StandardizerTask(_recipe(run, set_))
        found["untrained"] = ask(task, task.build().eval(), material, run.fold)
    (out / FIGURES).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0


def ask(task: Any, model: nn.Module, material: Material, fold: int) -> dict[str, Any]:
    """The scores of a fold's queries: index -> way -> metrics.

    The weight is fitted, and NIL calibrated, on training mentions that the recipe held out, with an index
    that does not have them; then they join it.
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
        fitted = fit(index_of(fitting), held_out, encode([mention.text for mention in held_out]))
        index = index_of(indexed)
        for way, weight in WAYS.items():
            weight = fitted.weight if weight is None else weight
            nil = fitted.nil if way == "both" else None
            standardizer = Standardizer(index, encode, weight, nil)
            answers = list(predict(standardizer, test))
            metrics = {key: score_linking(test, answers)[key] for key in LINKED}
            for key, strange in kinds.items():
                of_both = [*answers, *predict(standardizer, strange)]
                metrics[key] = score_linking([*test, *strange], of_both)["nil_auc"]
            scores.setdefault(name, {})[way] = metrics | {"weight": fitted.weight}
    return scores


def rows(planned: Sequence[Run], runs: Path) -> list[dict[str, Any]]:
    """One row for each corpus, index, encoder and way: the mean over folds and seeds."""
    table = []
    for corpus in dict.fromkeys(run.corpus for run in planned):
        files = {run: run.out(runs) / FIGURES for run in planned if run.corpus == corpus}
        found = {run: json.loads(file.read_text("utf-8")) for run, file in files.items() if file.exists()}
        for name in ("names", "names and mentions"):
            for encoder in ("untrained", "trained"):
                for way in WAYS:
                    got = {run: f[encoder][name][way] for run, f in found.items() if encoder in f}
                    if got and (encoder, way) != ("trained", "n-grams"):
                        table.append(_row(corpus, name, encoder, way, got))
    return table


def _row(
    corpus: str, index: str, encoder: str, way: str, got: Mapping[Run, Mapping[str, float | None]]
) -> dict[str, Any]:
    by_seed: dict[int, list[float]] = {}
    for run, scores in got.items():
        by_seed.setdefault(run.seed, []).append(float(scores["top1"] or 0))
    of_seeds = [statistics.mean(scores) for scores in by_seed.values()]
    means = {
        key: statistics.mean(float(scores[key] or 0) for scores in got.values())
        for key in SCORES
        if all(scores.get(key) is not None for scores in got.values())
    }
    return {
        "corpus": corpus,
        "index": index,
        "encoder": "-" if way == "n-grams" else encoder,
        "by": way,
        "folds": len({run.fold for run in got}),
        "seeds": len(by_seed),
        **means,
        "top1_deviation": statistics.stdev(of_seeds) if len(of_seeds) > 1 else None,
    }


def markdown(table: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table of docs/results.md."""
    lines = [
        "| corpus | index | encoder | by | folds x seeds | T@1 | T@3 | T@5 | MRR | NIL | entities "
        "| strangers |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in table:
        spread = f" ± {100 * row['top1_deviation']:.1f}" if row["top1_deviation"] is not None else ""
        cells = [f"{100 * row[key]:.1f}" if key in row else "-" for key in SCORES]
        cells[0] += spread
        kind = f"| {row['corpus']} | {row['index']} | {row['encoder']} | {row['by']} "
        lines.append(kind + f"| {row['folds']} x {row['seeds']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    parser.add_argument("--table", action="store_true", help="print what is finished, train nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = options.runs.resolve()
    planned = [
        Run(corpus, fold, seed)
        for corpus in options.only
        for seed in options.seeds
        for fold in (options.folds or range(TRIALS[corpus]))
    ]
    if changed := {run: keys for run in planned if (keys := changed_since(run, runs, options.set))}:
        for run, keys in changed.items():
            what = f"was trained with another {', another '.join(keys)}"
            print(f"{run.out(runs)}: {what}; remove it, name another --runs, or --set them", file=sys.stderr)
        sys.exit(2)
    failed = []
    if not options.table:
        torch.set_num_threads(1)
        material = {corpus: load_material(corpus) for corpus in options.only}
        with ThreadPoolExecutor(options.parallel) as pool:
            codes = pool.map(lambda run: train(run, runs, material[run.corpus], options.set), planned)
            failed = [run for run, code in zip(planned, codes, strict=True) if code]
    table = rows(planned, runs)
    print(json.dumps({"rows": table}) if options.json else markdown(table))
    for run in failed:
        print(f"failed: see {run.out(runs) / 'train.log'}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    call_main(main)
