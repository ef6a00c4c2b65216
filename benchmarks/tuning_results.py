"""The figures of tuning in docs/results.md: the grids of the papers, and what the settings found give.

    python -m benchmarks.tuning_results --runs runs/tuning --only figure_3   # goes on where it was cut off
    python -m benchmarks.tuning_results --runs runs/tuning --table           # trains nothing

A figure is a sweep of `rayner tune`. Those named `gain_...` train a recipe instead, as it is and with
the best settings of the sweeps that they need, with seeds that no trial had. Each is planned for 20 to 60
minutes on two idle cores. Below each table stands what was not trained to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from rayner.config import BaseRecipe
from rayner.recipes import dump_recipe, load_recipe, with_settings
from rayner.runtime.sweeps.corpora import cut_corpora
from rayner.runtime.sweeps.plan import TRIALS, plan_of
from rayner.runtime.sweeps.sampling import short_names
from rayner.runtime.sweeps.settings import METRICS
from rayner.runtime.sweeps.trials import Trial, rank_of, read_lines, read_trials
from rayner.runtime.tracking import LOG

ROOT = Path(__file__).resolve().parents[1]
ESAPPMOD, NCBI = "jobs/recipes/standardizer_esappmod.yaml", "jobs/recipes/recognizer_ncbi.yaml"
SENTENCES = "corpus.train=[$RAYNER_DATA/ncbi-disease-iob/train.tsv]"
"""Half of what the recipe learns from: an epoch takes three minutes with one thread in place of six."""
NAMES = ("mentions.are_aliases=false",)
"""The published condition: the index has the names of entities alone."""
SCHEDULERS = {"asha": "ASHA", "halving": "successive halving"}
MOST_ROWS = 20
BEST_ROWS = 5


class Figure(NamedTuple):
    """A sweep, or with `found` trainings with the best settings of these sweeps."""

    recipe: str
    changes: tuple[str, ...]
    space: str = ""
    options: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    folds: int = 0


COSINES, BINDER = "tune_spaces/standardizer.py", "tune_spaces/recognizer.py"
WHOLE, ROUNDS = ("--scheduler", "none"), ("--scheduler", "halving")
FIGURES: Mapping[str, Figure] = {
    "figure_3": Figure(ESAPPMOD, NAMES, f"{COSINES}:figure_3", (*WHOLE, "--folds", "5")),
    "figure_4": Figure(ESAPPMOD, NAMES, f"{COSINES}:figure_4", (*WHOLE, "--folds", "3")),
    "table_5": Figure(ESAPPMOD, NAMES, f"{COSINES}:table_5", (*ROUNDS, "--grace-period", "1")),
    "esappmod": Figure(ESAPPMOD, (), COSINES, ("--grace-period", "1", "--trials", "24")),
    "loss_weights": Figure(
        NCBI,
        (SENTENCES, "training.epochs=3"),
        f"{BINDER}:loss_weights",
        ("--grace-period", "1", "--reduction-factor", "4"),
    ),
    "beta": Figure(NCBI, (SENTENCES, "training.epochs=3"), f"{BINDER}:beta", WHOLE),
    "temperature": Figure(NCBI, (SENTENCES, "training.epochs=3"), f"{BINDER}:temperature", WHOLE),
    "gain_esappmod": Figure(ESAPPMOD, (), found=("esappmod",), folds=5),
    "gain_ncbi": Figure(NCBI, (SENTENCES,), found=("loss_weights", "beta", "temperature")),
}
SEEDS = (11, 12, 13)
"""Of the trainings of a gain: none that a trial had."""


def sweep(name: str, runs: Path) -> int:
    """Search, or go on with, a figure's settings in a process of its own; the exit status."""
    figure, out = FIGURES[name], runs / name
    if (out / "result.json").exists():
        return 0
    command = ["tune", figure.space, figure.recipe, "--out", str(out)]
    command += [*figure.options, *(word for change in figure.changes for word in ("--set", change))]
    return _rayner([*command, "--workers", "0", "--json"], out.with_suffix(".log"))


def compare(name: str, runs: Path, parallel: int) -> int:
    """Train, or go on with, the recipe as it is and with the settings found; the worst exit status."""
    figure, out = FIGURES[name], runs / name
    if missing := [part for part in figure.found if not (runs / part / "result.json").exists()]:
        print(f"{name}: needs {', '.join(missing)} first (--only {' '.join(missing)})", file=sys.stderr)
        return 2
    recipe = load_recipe(ROOT / figure.recipe, figure.changes)
    folds = cut_corpora(recipe, out / "corpora", figure.folds, 0).folds
    planned = [
        (folder, with_settings(recipe, {**settings, **folds[fold], "seed": seed}, name))
        for way, settings in (("recipe", {}), ("found", found_settings(figure, runs)))
        for fold, seed, folder in _trainings(figure, out / way)
    ]
    with ThreadPoolExecutor(parallel) as pool:
        return max(pool.map(lambda one: _train(*one), planned))


def found_settings(figure: Figure, runs: Path) -> dict[str, Any]:
    """The best settings of the sweeps that a gain names, together."""
    found: dict[str, Any] = {}
    for part in figure.found:
        found |= json.loads((runs / part / "result.json").read_text("utf-8"))["settings"]
    return found


def _trainings(figure: Figure, out: Path) -> Iterator[tuple[int, int, Path]]:
    for seed in SEEDS:
        for fold in range(max(figure.folds, 1)):
            yield fold, seed, out / f"fold{fold}-seed{seed}"


def _train(out: Path, recipe: BaseRecipe) -> int:
    if (out / "result.json").exists():
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    described = out.with_suffix(".yaml")
    described.write_text(dump_recipe(recipe), encoding="utf-8")
    return _rayner(
        ["train", str(described), "--out", str(out), "--workers", "0", "--json"], out.with_suffix(".log")
    )


def _rayner(arguments: Sequence[str], log: Path) -> int:
    path = os.pathsep.join(filter(None, (str(ROOT / "platform"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    with log.open("a", encoding="utf-8") as file:
        command = [sys.executable, "-m", "rayner.cli", *arguments]
        return subprocess.run(command, env=environment, stdout=file, stderr=file, cwd=ROOT).returncode


def trials_of(name: str, runs: Path) -> list[Trial]:
    """The trials of a sweep that have a score, the best first."""
    if not (runs / name / "sweep.json").exists():
        return []
    plan = plan_of(runs / name)
    trials = [trial for trial in read_trials(plan) if trial.reports]
    return sorted(trials, key=lambda trial: rank_of(trial, plan))


def by_epoch(name: str, runs: Path, trial: Trial, metric: str) -> list[float]:
    """The mean over a trial's trainings after each epoch that all of them went through."""
    plan = plan_of(runs / name)
    logs = [read_lines(plan.out / TRIALS / trial.name / run / LOG) for run in plan.runs]
    scores = [[row["metrics"][metric] for row in log if "metrics" in row] for log in logs]
    return [statistics.mean(after) for after in zip(*filter(None, scores), strict=False)]


def rows(name: str, runs: Path) -> list[dict[str, Any]]:
    """One row for each trial of a sweep, or for each of the two ways of a gain."""
    figure = FIGURES[name]
    metric = _metric(figure)
    if not figure.found:
        return [
            {
                "figure": name,
                "settings": dict(trial.settings),
                metric: trial.last[metric],
                "deviation": trial.spread,
                "runs": len(trial.values),
                "by_epoch": by_epoch(name, runs, trial, metric),
                "epochs": trial.last["epochs"],
                "seconds": trial.last["seconds"],
                "state": trial.state,
            }
            for trial in trials_of(name, runs)
        ]
    table = []
    for way in ("recipe", "found"):
        by_seed: dict[int, list[dict[str, Any]]] = {}
        for _, seed, folder in _trainings(figure, runs / name / way):
            if (folder / "result.json").exists():
                result = json.loads((folder / "result.json").read_text("utf-8"))
                by_seed.setdefault(seed, []).append(result)
        # A seed that lacks a fold would be compared by other mentions.
        whole = [results for results in by_seed.values() if len(results) == max(figure.folds, 1)]
        if whole:
            of_seeds = [statistics.mean(result["metrics"][metric] for result in results) for results in whole]
            table.append(
                {
                    "figure": name,
                    "settings": found_settings(figure, runs) if way == "found" else {},
                    metric: statistics.mean(of_seeds),
                    "deviation": statistics.stdev(of_seeds) if len(of_seeds) > 1 else None,
                    "seeds": len(of_seeds),
                    "seconds": sum(result["seconds"] for results in whole for result in results),
                }
            )
    return table


def markdown(name: str, runs: Path) -> str:
    """A figure as tables of docs/results.md, with what of it was cut."""
    table = rows(name, runs)
    if not table:
        return ""
    figure = FIGURES[name]
    metric = _metric(figure)
    minutes = sum(row["seconds"] for row in table) / 60
    if figure.found:
        lines = _lines(
            ("settings", metric, "seeds"),
            [(_words(r["settings"]) or "the recipe's", _percent(r, metric), r["seeds"]) for r in table],
        )
        after = f"In all: {_words(_told(figure)) or 'the recipe'}. {minutes:.0f} minutes of training."
        return "\n".join((f"### {name}", "", *lines, "", after))
    keys = list(table[0]["settings"])
    varied = [key for key in keys if len({str(row["settings"][key]) for row in table}) > 1]
    if len(table) <= MOST_ROWS:
        ordered = sorted(table, key=lambda row: [_order(row["settings"][key]) for key in varied])
        lines = list(_trial_lines(ordered, varied, metric))
    else:
        best = list(_trial_lines(table[:BEST_ROWS], varied, metric))
        lines = [*_value_lines(table, varied, metric), "", f"The best {BEST_ROWS}:", "", *best]
    same = {key: table[0]["settings"][key] for key in keys if key not in varied}
    after = [f"In all: {_words({**same, **_told(figure)}) or 'the recipe'}.", _what_was_cut(name, runs)]
    after.append(f"{minutes:.0f} minutes of training.")
    return "\n".join((f"### {name}", "", *lines, "", " ".join(after)))


def _trial_lines(table: Sequence[Mapping[str, Any]], varied: Sequence[str], metric: str) -> Sequence[str]:
    cells = [
        (
            *(row["settings"][key] for key in varied),
            _percent(row, metric),
            ", ".join(f"{100 * score:.1f}" for score in row["by_epoch"]),
            row["state"],
        )
        for row in table
    ]
    return _lines((*short_names(varied).values(), metric, "after each epoch", "state"), cells)


def _value_lines(table: Sequence[Mapping[str, Any]], varied: Sequence[str], metric: str) -> Sequence[str]:
    cells = []
    for key in varied:
        values = sorted({row["settings"][key] for row in table}, key=_order)
        # Of a range, every trial has a value of its own, and the best five say what there is to say.
        for value in values if len(values) <= MOST_ROWS else ():
            of_value = [row for row in table if row["settings"][key] == value]
            scores = [row[metric] for row in of_value]
            finished = sum(row["state"] == "finished" for row in of_value)
            shown = (f"{100 * max(scores):.1f}", f"{100 * statistics.median(scores):.1f}")
            cells.append((key, value, *shown, f"{finished} of {len(of_value)}"))
    return _lines(("setting", "value", f"best {metric}", "median", "finished"), cells)


def _what_was_cut(name: str, runs: Path) -> str:
    plan = plan_of(runs / name)
    trials = read_trials(plan)
    states = [trial.state for trial in trials]
    planned = plan.recipe.training.epochs * plan.settings.runs
    text = f"{states.count('finished')} of {len(trials)} trials went through {planned} epochs"
    text += f" ({plan.settings.runs} trainings)" if plan.settings.runs > 1 else ""
    if stopped := [trial.last["epochs"] for trial in trials if trial.state == "stopped"]:
        done = sum(trial.last.get("epochs", 0) for trial in trials)
        text += f"; {SCHEDULERS[plan.settings.scheduler]} stopped {len(stopped)}, "
        text += f"the first after {min(stopped):g}, and so cut "
        text += f"{100 * (1 - done / (planned * len(trials))):.0f} % of all epochs"
    if failed := states.count("failed"):
        text += f"; {failed} failed"
    return text + ("." if (runs / name / "result.json").exists() else "; the sweep is not over.")


def _metric(figure: Figure) -> str:
    return METRICS[Path(figure.recipe).stem.partition("_")[0]][0]


def _told(figure: Figure) -> dict[str, str]:
    parts = (change.partition("=") for change in figure.changes)
    return {key: value for key, _, value in parts}


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _percent(row: Mapping[str, Any], metric: str) -> str:
    spread = f" ± {100 * row['deviation']:.1f}" if row["deviation"] is not None else ""
    return f"{100 * row[metric]:.1f}{spread}"


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def _lines(names: Sequence[str], cells: Sequence[Sequence[Any]]) -> list[str]:
    rule = "| " + " | ".join("---" for _ in names) + " |"
    return [f"| {' | '.join(names)} |", rule, *(f"| {' | '.join(map(str, row))} |" for row in cells)]


def main() -> None:
    """Search and train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--parallel", type=int, default=2, help="trainings at once of a gain")
    parser.add_argument("--table", action="store_true", help="print what there is, train nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = options.runs.resolve()
    runs.mkdir(parents=True, exist_ok=True)
    failed = []
    if not options.table:
        for name in options.only:
            of_gain = FIGURES[name].found
            if compare(name, runs, options.parallel) if of_gain else sweep(name, runs):
                failed.append(name)
    if options.json:
        print(json.dumps({"rows": [row for name in options.only for row in rows(name, runs)]}))
    else:
        print("\n\n".join(filter(None, (markdown(name, runs) for name in options.only))))
    for name in failed:
        print(f"failed: {name}, see the logs in {runs}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
