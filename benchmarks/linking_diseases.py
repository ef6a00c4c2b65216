"""Linking of diseases in documents that no part of was learned from, by a trained standardizer.

    python -m benchmarks.linking_diseases --runs runs/linking_diseases --precision bfloat16

Goes on where it was cut off; --table prints what is finished.

Folds of the training documents of NCBI-disease and BC5CDR (diseases), linked to MEDIC with an index of the
names and of the mentions of the other folds, both sides combined as held-out mentions say. Each fold's
standardizer is trained by the corpus's recipe on the mentions of the other folds, abbreviations by their long
forms. A mention is unseen if its string is no name and no mention of the other folds, ignoring case: as it is
written, and "unknown" where its long form is none either. Top 1: all that is answered is right. Gains are
over the untrained encoder, asked the same strings, both with n-grams.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out, keep_origin, measured, origin_of, precision_of, record
from benchmarks.linking_in_documents import (
    CORPORA,
    FOLDS,
    Asked,
    Way,
    interval,
    linker_of,
    questions,
    split,
    untrained,
)
from benchmarks.linking_material import Material, remembering
from benchmarks.linking_results import changes_of, recipe_of, refuse_others, settings_of, train_fold
from benchmarks.linking_runs import FIGURES, SETTINGS, Run
from benchmarks.results_page import table as tables
from benchmarks.unseen_mentions import Fold
from rayner.data.entity_ids import entity_of_id
from rayner.data.mention_strings import MentionString
from rayner.data.mention_strings import fold as folded
from rayner.data.schema import Entity
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.standardizer.strings import load_entity_strings
from rayner.tasks.standardizer.task import StandardizerTask

Kind = Literal["written", "explained"]
KINDS: dict[Kind, str] = {"written": "as written", "explained": "long forms"}
BASE = "untrained"
ENCODERS = ("-", BASE, "trained")
PARTED = "\n\n"


def mentions_of(asked: Sequence[Asked], entities: Sequence[Entity], kind: Kind) -> list[MentionString]:
    """The strings of mentions, with the ids that the knowledge base has."""
    entity_of = entity_of_id(entities)
    found = [(getattr(one, kind), map(entity_of, one.entity_ids)) for one in asked]
    strings = [MentionString(text, tuple(dict.fromkeys(filter(None, ids)))) for text, ids in found]
    return [mention for mention in strings if mention.entity_ids]


def material_of(asked: Sequence[Asked], entities: Sequence[Entity]) -> Material:
    """What each fold is trained on."""
    learned = [split(fold, asked, entities)[1] for fold in range(FOLDS)]
    return Material(list(entities), [Fold(mentions_of(of, entities, "explained"), []) for of in learned], {})


def train(run: Run, runs: Path, asked: Sequence[Asked], material: Material, changes: Sequence[str]) -> int:
    """Train, or go on with, a fold in a process of its own, and ask its mentions; the exit status."""
    out = run.out(runs)
    if (out / FIGURES).exists():
        return 0
    if status := train_fold(run, runs, material, changes_of(run, runs, changes)):
        return status
    loaded = load_checkpoint(run.training(runs) / "best", precision="float32")
    assert isinstance(loaded.task, StandardizerTask)
    task = StandardizerTask(recipe_of(run))
    encoders = {
        "-": None,
        BASE: untrained(task, material.entities, runs / "vectors.npz"),
        "trained": remembering(partial(loaded.task.encode, loaded.model), {}),
    }
    test, learned, unseen = split(run.fold, asked, material.entities)
    found: dict[str, Any] = {"unseen": unseen, "document": [one.document for one in test]}
    found["explained"] = [one.written != one.explained for one in test]
    found["unknown"] = unknown(test, learned, material.entities)
    found[SETTINGS] = settings_of(run, changes).model_dump(mode="json")
    entity_of = entity_of_id(material.entities)
    gold = [{entity_of(id_) or id_ for id_ in one.entity_ids} for one in test]
    for kind in KINDS:
        mentions = mentions_of(learned, material.entities, kind)
        for encoder, encode in encoders.items():
            linker = linker_of(mentions, material.entities, task, encode)
            linker.search([getattr(one, kind) for one in test])
            answers = (linker.answer(one, Way(asked=kind)) for one in test)
            found[f"{encoder} {kind}"] = [set(of) <= ids for of, ids in zip(answers, gold, strict=True)]
    keep_origin(out)
    (out / FIGURES).write_text(json.dumps(found), encoding="utf-8")
    return 0


def unknown(test: Sequence[Asked], learned: Sequence[Asked], entities: Sequence[Entity]) -> list[bool]:
    """Whether neither the string of a mention nor its long form is a name or a learned string."""
    known = {folded(name) for entity in entities for name in (entity.name, *entity.aliases)}
    known |= {folded(text) for one in learned for text in (one.written, one.explained)}
    return [known.isdisjoint(map(folded, (one.written, one.explained))) for one in test]


def rows(of_folds: Sequence[Mapping[str, list]]) -> list[dict[str, Any]]:
    """A row for each group of mentions, kind of strings and encoder."""
    names = [name for name in of_folds[0] if name != SETTINGS]
    columns = {name: np.concatenate([of[name] for of in of_folds]) for name in names}
    unseen = columns["unseen"].astype(bool)
    groups = {"all": np.ones(len(unseen), bool), "unseen": unseen}
    groups["unseen, explained"] = unseen & columns["explained"].astype(bool)
    groups["unknown"] = columns["unknown"].astype(bool)
    table = []
    for group, mask in groups.items():
        for kind, strings in KINDS.items():
            base = columns[f"{BASE} {kind}"][mask].astype(float)
            for encoder in ENCODERS:
                right = columns[f"{encoder} {kind}"][mask]
                row: dict[str, Any] = {"mentions": group, "count": int(mask.sum()), "strings": strings}
                row |= {"encoder": encoder, "folds": len(of_folds), "top_1": float(right.mean())}
                if encoder == "trained":
                    gain = right - base
                    row["gain"] = float(gain.mean())
                    row["gain_interval"] = interval(gain, columns["document"][mask])
                table.append(row)
    return table


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--folds", nargs="+", type=int, default=list(range(FOLDS)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/linking_diseases"))
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out(parser, "linking_diseases")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs, changes = options.runs.resolve(), [f"training.precision={options.precision}"]
    planned = [Run(corpus, fold, options.seed) for corpus in options.only for fold in options.folds]
    refuse_others(planned, runs, changes)
    failed: list[Run] = []
    if not options.table:
        runs.mkdir(parents=True, exist_ok=True)
        failed = train_all(planned, runs, changes, options.parallel)
    finished = [run for run in planned if (run.out(runs) / FIGURES).exists()]
    table: list[dict[str, Any]] = []
    for corpus in dict.fromkeys(run.corpus for run in finished):
        files = (run.out(runs) / FIGURES for run in finished if run.corpus == corpus)
        of_corpus = rows([json.loads(file.read_text("utf-8")) for file in files])
        table += [{"corpus": corpus, **row} for row in of_corpus]
    shown = measured(
        table,
        {"top_1": "%", "gain": "%"},
        headline="top_1",
        where=lambda row: (
            (row["mentions"], row["strings"], row["encoder"]) == ("unseen", KINDS["explained"], "trained")
        ),
    )
    if finished and not options.table:
        record(
            "linking_diseases",
            options.out,
            origin_of(run.out(runs) for run in finished),
            title="Linking: diseases in their documents to MEDIC",
            section="Linking",
            task="standardizer",
            conditions=f"{' '.join(str(__doc__).split(PARTED)[3].split())} {folds_of(finished)}",
            precision=precision_of(run.training(runs) for run in finished),
            seeds=(options.seed,),
            uncertainty="Intervals of gains are of 95 %, over documents, paired mention by mention.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))
    for run in failed:
        print(f"failed: see {run.out(runs) / 'train.log'}", file=sys.stderr)
    sys.exit(1 if failed else 0)


def folds_of(finished: Sequence[Run]) -> str:
    """How many of the folds there are, where they are not all."""
    found = {corpus: sum(run.corpus == corpus for run in finished) for corpus in CORPORA}
    return "; ".join(f"{corpus}: {count} of {FOLDS} folds" for corpus, count in found.items()) + "."


def train_all(planned: Sequence[Run], runs: Path, changes: Sequence[str], parallel: int) -> list[Run]:
    """Train what is missing; what failed."""
    first = recipe_of(planned[0])
    # Of the mentions' files nothing is read here.
    bare = first.model_copy(update={"mentions": type(first.mentions)()})
    entities = load_entity_strings(bare).indexed
    asked = {corpus: questions(corpus) for corpus in {run.corpus for run in planned}}
    material = {corpus: material_of(of, entities) for corpus, of in asked.items()}
    # Once, before the folds ask for it side by side.
    untrained(StandardizerTask(bare), entities, runs / "vectors.npz")

    def one(run: Run) -> int:
        return train(run, runs, asked[run.corpus], material[run.corpus], changes)

    with ThreadPoolExecutor(parallel) as pool:
        return [run for run, status in zip(planned, pool.map(one, planned), strict=True) if status]


if __name__ == "__main__":
    call_main(main)
