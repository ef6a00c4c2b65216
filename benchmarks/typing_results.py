"""The figures of fine-grained typing: does the pre-training of its encoder pay? (papers/003, tables 1 and 2)

    python -m benchmarks.typing_results --runs runs/typing            # all; goes on where it was cut off
    python -m benchmarks.typing_results --runs runs/typing --table    # trains and writes nothing
    python -m benchmarks.typing_results --runs runs/typing --finished # trains nothing, writes what there is
    python -m benchmarks.typing_results --runs runs/typing --corpus gum   # the types of GUM, or of litbank
    python -m benchmarks.typing_results --runs runs/typing --modes tuned  # in a file of its own
    python -m benchmarks.typing_results --runs runs/typing --encoders untrained novels  # runs/typing/novels

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out_folder, measured
from benchmarks.typing_corpora import CORPORA
from benchmarks.typing_runs import (
    METRICS,
    MODES,
    RECIPES,
    Cut,
    add_options,
    compared,
    not_finished,
    pretrain,
    publish,
    score,
)
from rayner.counted import counted
from rayner.errors import RaynerError
from rayner.tasks.checkpoint import read_recipe
from rayner.tasks.predict import predict
from rayner.tasks.registry import load_recipe, task_of

PRETRAINING: Mapping[str, Sequence[str]] = {
    "coreference chains": (),
    "masked language modelling": ("loss.contrast_weight=0", "masking.mentions=none"),
}
ENCODERS = ("untrained", *PRETRAINING)
"""In the order in which they are measured: where time ends, that of the aim are there first."""
CHAIN_METRICS: Mapping[str, str] = {
    "chain_mrr": "mrr",
    "chain_mrr_other_stories": "mrr_other_stories",
}


class Run(NamedTuple):
    """One typer."""

    corpus: str
    encoder: str
    mode: str
    seed: int

    def out(self, runs: Path) -> Path:
        """Its folder."""
        return runs / self.corpus / f"{self.encoder.replace(' ', '_')}_{self.mode}_{self.seed}"


def encoder_of(name: str, runs: Path, cut: Cut) -> str:
    """The encoder that a typer starts from."""
    if name == "untrained":
        return load_recipe(RECIPES / "typer_ufet.yaml").encoder
    if name not in PRETRAINING:
        last = runs / name.replace(" ", "_") / "last"
        if not last.is_dir():
            raise RaynerError(
                f"--encoders: {last} is no folder; train it, or name one of {', '.join(ENCODERS)}"
            )
        return str(last)
    return pretrain(runs / name.replace(" ", "_"), PRETRAINING[name], cut)


def about_pretraining(name: str, runs: Path) -> str:
    """What an encoder that this benchmark did not pre-train learned from."""
    out = runs / name.replace(" ", "_")
    result = json.loads((out / "result.json").read_text("utf-8"))
    recipe: Any = read_recipe(out)
    training = recipe.training
    by = "masked words alone"
    if not learns_words_alone(name, runs):
        negatives, masked = recipe.loss.negatives.replace("_", " "), recipe.masking.mentions
        by = f"chains with negatives of {negatives} and masked words (of mentions: {masked})"
    passes = counted(training.epochs, "pass", "passes")
    size = f"{result['steps']} steps of {training.tokens_per_step:,} sub-words in {passes}"
    return f"Here {name} is another pre-training, by {by}: {size}, {result['compute_precision']}."


def learns_words_alone(name: str, runs: Path) -> bool:
    """Whether a pre-training is by masked language modelling alone: a control of one on chains."""
    if name not in ENCODERS:
        recipe: Any = read_recipe(runs / name.replace(" ", "_"))
        return recipe.loss.contrast_weight == 0
    return "loss.contrast_weight=0" in PRETRAINING.get(name, ())


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


def rows(planned: Sequence[Run], runs: Path, cut: Cut) -> list[dict[str, Any]]:
    """One row for each encoder, with the metric of its pre-training; then one for each encoder and way: the
    mean over seeds, and how much more than untrained and than the control by masked words alone."""
    table: list[dict[str, Any]] = []
    encoders = dict.fromkeys(run.encoder for run in planned)
    control = next((encoder for encoder in encoders if learns_words_alone(encoder, runs)), None)
    for encoder in encoders:
        if found := chain_metrics(encoder, runs, cut):
            table.append({"encoder": encoder, "typer": "none", "seeds": 1, **found})
    for mode in MODES:
        outs = {
            encoder: [r.out(runs) for r in planned if (r.encoder, r.mode) == (encoder, mode)]
            for encoder in encoders
        }
        for encoder, row in compared(outs, "untrained", control).items():
            table.append({"encoder": encoder, "typer": mode, **row})
    return table


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/typing"))
    parser.add_argument("--corpus", choices=CORPORA, default="ufet", help="whose types are learned")
    what = "those of its own, or names of pre-trainings in --runs"
    parser.add_argument("--encoders", nargs="+", default=list(ENCODERS), help=what)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    add_options(parser)
    add_out_folder(parser)
    options = parser.parse_args()
    runs, corpus = options.runs.resolve(), CORPORA[options.corpus]()
    cut = Cut(options.cut, options.genres, options.cut_typers, options.rates)
    name, seeds, tuned = options.corpus, options.seeds, options.modes == ["tuned"]
    planned = [Run(name, e, mode, seed) for seed in seeds for mode in options.modes for e in options.encoders]
    torch.set_num_threads(1)
    if not (options.table or options.finished):
        for run in planned:
            changes = (f"encoder={encoder_of(run.encoder, runs, cut)}", f"seed={run.seed}")
            score(run.out(runs), corpus, changes, cut.settings(run.mode))
    others = [encoder for encoder in options.encoders if encoder not in ENCODERS]
    # Their chains of dev are those of their own recipes, not to be held against each other.
    table = [row for row in rows(planned, runs, cut) if not others or row["typer"] != "none"]
    shown = measured(
        table,
        dict.fromkeys((*METRICS, "gain", "gain_over_control", *CHAIN_METRICS), "%"),
        n=lambda row: row["seeds"],
        headline="macro_f1",
        where=lambda row: row["encoder"] in ("coreference chains", *others),
    )
    # The first of them names the file.
    of_others = [other.replace(" ", "_") for other in others[:1]]
    outs = {run.out(runs): f"{run.encoder}, {run.mode}" for run in planned}
    trainings = [run.out(runs) / str(n) for run in planned for n in range(len(cut.settings(run.mode)))]
    publish(
        "typing_results",
        options,
        "_".join([f"typing_{name}", *(["tuned"] if tuned else []), *of_others]),
        table,
        shown,
        [*trainings, *(runs / e.replace(" ", "_") for e in options.encoders if e != "untrained")],
        f"{corpus.title}, {'tuned encoders, ' if tuned else ''}and what pre-training adds"
        + "".join(f" ({other})" for other in of_others),
        [
            " ".join(str(__doc__).split("\n\n")[2].split()),
            *(about_pretraining(other, runs) for other in others),
            cut.words(),
            not_finished(outs),
            "One seed of each pre-training. Published: ALBERT and RoBERTa, on 4 million news stories.",
        ],
    )


if __name__ == "__main__":
    call_main(main)
