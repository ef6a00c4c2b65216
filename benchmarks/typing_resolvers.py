"""Whose coreference chains serve a typer: the ablation of papers/003, table 6.

    python -m benchmarks.typing_resolvers --runs runs/typing --genres news

Goes on where it was cut off.

An encoder learns from the coreference chains of documents of GUM, with as many epochs each time: from the
annotated chains; from those that the rules find, or the mention-ranking model, in the same documents; and
from the links on which both agree. The model learned from LitBank and from GUM's other genres. Over the
frozen encoder a linear head learns the types of UFET's crowd-annotated training part; thresholds, and the
head's learning rate, are chosen on a slice of that part, and UFET's dev scores once.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out_folder, measured
from benchmarks.trainings import RECIPES, train
from benchmarks.typing_corpora import ufet
from benchmarks.typing_runs import METRICS, Cut, add_options, compared, not_finished, pretrain, publish, score
from rayner.errors import InputError
from rayner.runtime.corpora.resolve import resolve_texts
from rayner.tasks.registry import load_recipe

RESOLVERS: Mapping[str, Sequence[str]] = {
    "rules & ranking": ("rules", "ranking"),
    "rules": ("rules",),
    "ranking": ("ranking",),
    "annotated": (),
}
"""Whose links make the chains; the paper's method first."""
RANKING = "resolver"
"""The folder of the mention-ranking model."""


def _folder(chains: str, runs: Path) -> Path:
    return runs / "resolvers" / chains.replace(" & ", "_")


def _out(chains: str, seed: int, runs: Path) -> Path:
    return _folder(chains, runs) / f"typer_{seed}"


def ranking_of(runs: Path, cut: Cut, settings: Sequence[str]) -> str:
    """The mention-ranking model, trained where it is missing on documents that it is not asked about."""
    recipe: Any = load_recipe(RECIPES / "coreference_litbank_gum.yaml")
    asked = {path for part in cut.parts() for path in part}
    held_out = {os.path.expandvars(path) for path in recipe.corpus.dev}
    folders = [Path(os.path.expandvars(path)) for path in recipe.corpus.train]
    learned = [str(file) for folder in folders for file in sorted(folder.glob("*.conll"))]
    learned = [path for path in learned if path not in asked | held_out]
    develop = sorted(held_out - asked)
    changes = (f"corpus.train={json.dumps(learned)}", f"corpus.dev={json.dumps(develop)}", *settings)
    train(RECIPES / "coreference_litbank_gum.yaml", runs / RANKING, changes)
    return f"ranking:{runs / RANKING / 'best'}"


def stories(chains: str, runs: Path, cut: Cut, settings: Sequence[str]) -> list[str]:
    """KEY=VALUE of a pre-training on the chains that these resolvers find."""
    if not RESOLVERS[chains]:
        return []
    out = _folder(chains, runs) / "stories"
    names = [ranking_of(runs, cut, settings) if name == "ranking" else name for name in RESOLVERS[chains]]
    resolve_texts([Path(path) for path in cut.parts()[0]], out, names, heads="rule")
    return [f"corpus.train={json.dumps([str(out)])}"]


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/typing"))
    parser.add_argument(
        "--cut-resolver", nargs="+", default=[], metavar="KEY=VALUE", help="set for the mention-ranking model"
    )
    add_options(parser)
    add_out_folder(parser)
    options = parser.parse_args()
    if not options.genres:
        raise InputError("--genres", "is missing", "the model that resolves them learns from the others")
    runs, seeds = options.runs.resolve(), options.seeds
    cut = Cut(options.cut, options.genres, options.cut_typers, options.rates)
    torch.set_num_threads(1)
    if not (options.table or options.finished):
        for seed in seeds:
            for chains in RESOLVERS:
                changes = stories(chains, runs, cut, options.cut_resolver)
                encoder = pretrain(_folder(chains, runs) / "encoder", changes, cut)
                given = (f"encoder={encoder}", f"seed={seed}")
                score(_out(chains, seed, runs), ufet(), given, cut.settings("frozen"))
    outs = {chains: [_out(chains, seed, runs) for seed in seeds] for chains in RESOLVERS}
    table = [{"chains": name, **row} for name, row in compared(outs, next(iter(RESOLVERS))).items()]
    shown = measured(table, dict.fromkeys((*METRICS, "gain"), "%"), n=lambda row: row["seeds"])
    every = {out: chains for chains, of in outs.items() for out in of}
    trainings = [out / str(n) for out in every for n in range(len(cut.settings("frozen")))]
    publish(
        "typing_resolvers",
        options,
        "typing_resolvers",
        table,
        shown,
        [*trainings, runs / RANKING, *(_folder(chains, runs) / "encoder" for chains in RESOLVERS)],
        "whose chains the pre-training learns from",
        [
            " ".join(str(__doc__).split("\n\n")[3].split()),
            "Gains are over the first row, the paper's method.",
            cut.words(),
            f"The resolver was cut: {', '.join(options.cut_resolver)}." if options.cut_resolver else "",
            "One seed of the resolver and of each pre-training.",
            not_finished(every),
        ],
    )


if __name__ == "__main__":
    call_main(main)
