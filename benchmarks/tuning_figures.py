"""Which sweeps and trainings `benchmarks.tuning_results` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

ESAPPMOD, NCBI = "jobs/recipes/standardizer_esappmod.yaml", "jobs/recipes/recognizer_ncbi.yaml"
TAGGER = "jobs/recipes/tagger_ncbi.yaml"
SENTENCES = "corpus.train=[$RAYNER_DATA/ncbi-disease-iob/train.tsv]"
"""Half of what the recipe learns from: an epoch takes three minutes with one thread in place of six."""
ABSTRACTS = (
    "corpus.train=[$RAYNER_DATA/ncbi-disease-pubtator/NCBItrainset_corpus.txt]",
    "corpus.dev=[]",
    "corpus.dev_fraction=0.2",
)
"""Whole abstracts alone, of which a fifth chooses: the dev that the recipe is scored on has no part in it."""
NAMES = ("mentions.are_aliases=false",)
"""The index has the names of entities alone, as published."""


class Figure(NamedTuple):
    """A sweep, or with `found` trainings with the best settings of these sweeps."""

    recipe: str
    changes: tuple[str, ...]
    space: str = ""
    options: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    folds: int = 0
    title: str = ""


COSINES, BINDER = "tune_spaces/standardizer.py", "tune_spaces/recognizer.py"
WHOLE, ROUNDS = ("--scheduler", "none"), ("--scheduler", "halving")
FIGURES: Mapping[str, Figure] = {
    "figure_3": Figure(
        ESAPPMOD,
        NAMES,
        f"{COSINES}:figure_3",
        (*WHOLE, "--folds", "5"),
        title="Learning rates (papers/002, figure 3)",
    ),
    "figure_4": Figure(
        ESAPPMOD,
        NAMES,
        f"{COSINES}:figure_4",
        (*WHOLE, "--folds", "3"),
        title="Mining (papers/002, figure 4)",
    ),
    "table_5": Figure(
        ESAPPMOD,
        NAMES,
        f"{COSINES}:table_5",
        (*ROUNDS, "--grace-period", "1"),
        title="The grid of papers/002, table 5",
    ),
    "esappmod": Figure(
        ESAPPMOD, (), COSINES, ("--grace-period", "1", "--trials", "24"), title="Our own space on ESAppMod"
    ),
    "loss_weights": Figure(
        NCBI,
        (SENTENCES, "training.epochs=3"),
        f"{BINDER}:loss_weights",
        ("--grace-period", "1", "--reduction-factor", "4"),
        title="How much starts and ends weigh (papers/000, appendix A.4)",
    ),
    "beta": Figure(
        NCBI,
        (SENTENCES, "training.epochs=3"),
        f"{BINDER}:beta",
        WHOLE,
        title="Mentions against thresholds (papers/000, equations 8 and 9)",
    ),
    "temperature": Figure(
        NCBI,
        (SENTENCES, "training.epochs=3"),
        f"{BINDER}:temperature",
        WHOLE,
        title="The temperature of the recognizer",
    ),
    "tagger": Figure(
        TAGGER,
        (*ABSTRACTS, "training.precision=bfloat16"),
        "tune_spaces/tagger.py:schemes",
        (*ROUNDS, "--grace-period", "2", "--reduction-factor", "2"),
        title="Learning rate and scheme of the tagger",
    ),
    "gain_esappmod": Figure(
        ESAPPMOD, (), found=("esappmod",), folds=5, title="What our own space gives on ESAppMod"
    ),
    "gain_ncbi": Figure(
        NCBI,
        (SENTENCES,),
        found=("loss_weights", "beta", "temperature"),
        title="What the three sweeps of NCBI give together",
    ),
}
