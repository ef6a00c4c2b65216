"""Where a mention is read, and how chains are learned from: the ablations of papers/003, tables 4 and 5.

    python -m benchmarks.typing_ablations mentions --runs runs/typing     # table 4
    python -m benchmarks.typing_ablations pretraining --runs runs/typing  # table 5

Both go on where they were cut off.

A linear head learns the types of UFET's crowd-annotated training part; thresholds, and the head's learning
rate where the encoder is frozen, are chosen on a slice of that part, and UFET's dev scores once.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out_folder, measured
from benchmarks.typing_corpora import ufet
from benchmarks.typing_runs import (
    METRICS,
    Cut,
    add_options,
    compared,
    not_finished,
    pretrain,
    publish,
    score,
)


class Ablation(NamedTuple):
    """A table of the paper.

    Attributes:
        title: what is compared.
        mode: "frozen" or "tuned", of the typers' encoder.
        conditions: a sentence on what all rows share.
        columns: the settings that tell the rows, by name.
        rows: their values; the first are the paper's method.
        pretrained: whether the settings are of the pre-training; of the typer otherwise.
    """

    title: str
    mode: str
    conditions: str
    columns: Mapping[str, str]
    rows: Sequence[Sequence[str]]
    pretrained: bool

    def settings(self, row: Sequence[str]) -> list[str]:
        """KEY=VALUE of a row."""
        return [f"{setting}={value}" for setting, value in zip(self.columns.values(), row, strict=True)]


ABLATIONS: Mapping[str, Ablation] = {
    "mentions": Ablation(
        title="where a mention is read",
        mode="tuned",
        conditions="The encoder is the embedded one, without pre-training, and learns with the head.",
        columns={"mention": "model.mention_encoding"},
        rows=[["head"], ["head_markers"], ["span_markers"], ["triple"], ["prompt"], ["mask"]],
        pretrained=False,
    ),
    "pretraining": Ablation(
        title="negatives and masks of the pre-training on chains",
        mode="frozen",
        conditions="The embedded encoder was pre-trained by jobs/recipes/chains_litbank.yaml, with other "
        "negatives and masks in each row and as many steps, and is frozen under the head.",
        columns={"negatives": "loss.negatives", "masked": "masking.mentions"},
        rows=[
            ["other_stories", "head"],
            ["other_stories", "span"],
            ["other_stories", "none"],
            ["same_story", "span"],
            ["same_story", "none"],
        ],
        pretrained=True,
    ),
}


def _folder(row: Sequence[str], runs: Path, name: str) -> Path:
    return runs / name / "_".join(row)


def _out(row: Sequence[str], seed: int, runs: Path, name: str) -> Path:
    return _folder(row, runs, name) / f"typer_{seed}"


def measure(name: str, seeds: Sequence[int], runs: Path, cut: Cut) -> None:
    """Train and score what is missing."""
    ablation, corpus = ABLATIONS[name], ufet()
    for seed in seeds:
        for row in ablation.rows:
            changes = ablation.settings(row)
            if ablation.pretrained:
                changes = [f"encoder={pretrain(_folder(row, runs, name) / 'encoder', changes, cut)}"]
            tries = cut.settings(ablation.mode)
            score(_out(row, seed, runs, name), corpus, (*changes, f"seed={seed}"), tries)


def rows(name: str, seeds: Sequence[int], runs: Path) -> list[dict[str, Any]]:
    """One for each row of the table that is finished; `gain` is over the paper's method."""
    ablation = ABLATIONS[name]
    labels = {" ".join(row): dict(zip(ablation.columns, row, strict=True)) for row in ablation.rows}
    outs = {
        label: [_out(list(row.values()), seed, runs, name) for seed in seeds] for label, row in labels.items()
    }
    return [
        {**{column: value.replace("_", " ") for column, value in labels[label].items()}, **row}
        for label, row in compared(outs, next(iter(labels))).items()
    ]


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ablation", choices=ABLATIONS)
    parser.add_argument("--runs", type=Path, default=Path("runs/typing"))
    add_options(parser)
    add_out_folder(parser)
    options = parser.parse_args()
    name, runs, seeds = options.ablation, options.runs.resolve(), options.seeds
    ablation = ABLATIONS[name]
    cut = Cut(options.cut, options.genres, options.cut_typers, options.rates)
    torch.set_num_threads(1)
    if not (options.table or options.finished):
        measure(name, seeds, runs, cut)
    table = rows(name, seeds, runs)
    shown = measured(table, dict.fromkeys((*METRICS, "gain"), "%"), n=lambda row: row["seeds"])
    outs = {_out(row, seed, runs, name): ", ".join(row) for seed in seeds for row in ablation.rows}
    trainings = [out / str(n) for out in outs for n in range(len(cut.settings(ablation.mode)))]
    encoders = [_folder(row, runs, name) / "encoder" for row in ablation.rows if ablation.pretrained]
    publish(
        "typing_ablations",
        options,
        f"typing_{name}",
        table,
        shown,
        [*trainings, *encoders],
        ablation.title,
        [
            " ".join(str(__doc__).split("\n\n")[3].split()),
            ablation.conditions,
            "Gains are over the first row, the paper's method.",
            cut.words(),
            "One seed of each pre-training." if ablation.pretrained else "",
            not_finished(outs),
        ],
    )


if __name__ == "__main__":
    call_main(main)
