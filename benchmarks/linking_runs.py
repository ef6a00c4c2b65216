"""Runs of the figures of linking, and what those that are finished gave: rows of scores, and paired gains."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import ROOT, commits_of
from benchmarks.linking_in_documents import interval

LINKED = ("top1", "top3", "top5", "mrr")
SCORES = (*LINKED, "nil_auc", "nil_auc_entities", "nil_auc_strangers")
FIGURES, SETTINGS = "figures.json", "settings"
"""A finished run's file, and its key of the recipe as it was then, which files of earlier runs lack."""
INDEXES = ("names", "names and mentions")
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

    def training(self, runs: Path) -> Path:
        """The folder of its training."""
        return self.out(runs) / "run"


def rows(planned: Sequence[Run], runs: Path) -> list[dict[str, Any]]:
    """One row for each corpus, index, encoder and way: the mean over folds and seeds."""
    table = []
    for corpus in dict.fromkeys(run.corpus for run in planned):
        found = _figures([run for run in planned if run.corpus == corpus], runs)
        for name in INDEXES:
            for encoder in ("untrained", "trained"):
                for way in WAYS:
                    got = {run: f[encoder][name][way] for run, f in found.items() if encoder in f}
                    if got and (encoder, way) != ("trained", "n-grams"):
                        table.append(_row(corpus, name, encoder, way, got, runs))
    return table


def _row(
    corpus: str,
    index: str,
    encoder: str,
    way: str,
    got: Mapping[Run, Mapping[str, float | None]],
    runs: Path,
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
    made = [run.out(runs) for run in got]
    made += [run.training(runs) for run in got] if encoder == "trained" else []
    return {
        "corpus": corpus,
        "index": index,
        "encoder": "-" if way == "n-grams" else encoder,
        "by": way,
        "folds": len({run.fold for run in got}),
        "seeds": len(by_seed),
        "commits": commits_of(made),
        **means,
        "top1_deviation": statistics.stdev(of_seeds) if len(of_seeds) > 1 else None,
    }


def gains(planned: Sequence[Run], runs: Path, against: Path | None = None) -> list[dict[str, Any]]:
    """What the trained encoder gains in top 1, with n-grams, over all mentions that both were asked."""
    found = _figures(planned, runs)
    others = {"untrained": _hits(found, "untrained")}
    if against is not None:
        others[against.name] = _hits(_figures(planned, against), "trained")
    table = []
    for corpus, name in dict.fromkeys((run.corpus, name) for name in INDEXES for run in planned):
        new = _hits(found, "trained")
        for other, base in others.items():
            keys = [key for key in new if key in base and key[:2] == (corpus, name)]
            if not keys:
                continue
            gain = np.array([new[key] - base[key] for key in keys])
            row = {"corpus": corpus, "index": name, "encoder": "trained", "against": other}
            row |= {"mentions": len(keys), "gain": float(gain.mean())}
            table.append(row | {"gain_interval": interval(gain, np.arange(len(gain)))})
    return table


def _figures(planned: Sequence[Run], runs: Path) -> dict[Run, dict[str, Any]]:
    files = {run: run.out(runs) / FIGURES for run in planned}
    return {run: json.loads(file.read_text("utf-8")) for run, file in files.items() if file.exists()}


def _hits(found: Mapping[Run, Mapping[str, Any]], encoder: str) -> dict[tuple[str, str, str], float]:
    """By corpus, index and mention, how many of its seeds have the right entity first."""
    hits: dict[tuple[str, str, str], list[bool]] = {}
    for run, figures in found.items():
        for name in INDEXES if encoder in figures and "asked" in figures else ():
            ranks = figures[encoder][name]["both"]["ranks"]
            for text, rank in zip(figures["asked"], ranks, strict=True):
                hits.setdefault((run.corpus, name, text), []).append(rank == 1)
    return {key: statistics.mean(map(float, of_seeds)) for key, of_seeds in hits.items()}
