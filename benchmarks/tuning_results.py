"""The figures of tuning: the grids of the papers, and what the settings found give.

    python -m benchmarks.tuning_results --runs runs/tuning --only figure_3   # goes on where it was cut off
    python -m benchmarks.tuning_results --runs runs/tuning --table           # trains and writes nothing

A figure is a sweep of `rayner tune`. Those named `gain_...` train a recipe instead, as it is and with
the best settings of the sweeps that they need, with seeds that no trial had. Each is planned for 20 to 60
minutes on two idle cores. Its conditions say what was not trained to its end.
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
from typing import Any

from benchmarks.figures import ROOT, Row, add_out_folder, keep_origin, measured, origin_of, record
from benchmarks.results_page import table as tables
from benchmarks.tuning_figures import FIGURES, Figure
from rayner.config import BaseRecipe
from rayner.config.recipe_files import dump_recipe, with_settings
from rayner.files.run_checkpoints import LOG
from rayner.runtime.sweeps.corpora import cut_corpora
from rayner.runtime.sweeps.plan import TRIALS, plan_of
from rayner.runtime.sweeps.sampling import short_names
from rayner.runtime.sweeps.trials import Trial, rank_of, read_lines, read_trials
from rayner.tasks.registry import load_recipe, task_of

SCHEDULERS = {"asha": "ASHA", "halving": "successive halving"}
MOST_ROWS = 20
BEST_ROWS = 5


SEEDS = (11, 12, 13)
"""Of the trainings of a gain: none that a trial had."""


def sweep(name: str, runs: Path) -> int:
    """Search, or go on with, a figure's settings in a process of its own; the exit status."""
    figure, out = FIGURES[name], runs / name
    if (out / "result.json").exists():
        return 0
    command = ["tune", figure.space, figure.recipe, "--out", str(out)]
    command += [*figure.options, *(word for change in figure.changes for word in ("--set", change))]
    status = _rayner([*command, "--workers", "0", "--json"], out.with_suffix(".log"))
    if not status:
        keep_origin(out)
    return status


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
    command = ["train", str(described), "--out", str(out), "--workers", "0", "--json"]
    status = _rayner(command, out.with_suffix(".log"))
    if not status:
        keep_origin(out)
    return status


def _rayner(arguments: Sequence[str], log: Path) -> int:
    path = os.pathsep.join(filter(None, (str(ROOT / "platform"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    with log.open("a", encoding="utf-8") as file:
        command = [sys.executable, "-m", "rayner", *arguments]
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
                f"{metric}_deviation": trial.spread,
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
                    f"{metric}_deviation": statistics.stdev(of_seeds) if len(of_seeds) > 1 else None,
                    "seeds": len(of_seeds),
                    "seconds": sum(result["seconds"] for results in whole for result in results),
                }
            )
    return table


def figures(name: str, runs: Path) -> tuple[Row, ...]:
    """The rows of a file: every trial of a small sweep, else what each value gave and the best trials."""
    found = rows(name, runs)
    if not found:
        return ()
    metric = _metric(FIGURES[name])
    units = {metric: "%", f"best_{metric}": "%", "median": "%", "after_each_epoch": "%"}
    if FIGURES[name].found:
        told = [{**row, "settings": _words(row["settings"]) or "the recipe's"} for row in found]
        kept = ("settings", metric, f"{metric}_deviation", "seeds")
        return measured(_only(told, kept), units, n=lambda row: row["seeds"])
    varied = [key for key in found[0]["settings"] if len({str(row["settings"][key]) for row in found}) > 1]
    if len(found) <= MOST_ROWS:
        ordered = sorted(found, key=lambda row: [_order(row["settings"][key]) for key in varied])
        return measured(_trials(ordered, varied, metric), units)
    best = _trials(found[:BEST_ROWS], varied, metric)
    return measured([*_values(found, varied, metric), *best], units)


def _only(table: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[dict[str, Any]]:
    return [{key: row[key] for key in keys} for row in table]


def _trials(table: Sequence[Mapping[str, Any]], varied: Sequence[str], metric: str) -> list[dict[str, Any]]:
    names = short_names(varied)
    return [
        {
            **{names[key]: row["settings"][key] for key in varied},
            **{key: row[key] for key in (metric, f"{metric}_deviation")},
            "after_each_epoch": row["by_epoch"],
            "state": row["state"],
        }
        for row in table
    ]


def _values(table: Sequence[Mapping[str, Any]], varied: Sequence[str], metric: str) -> list[dict[str, Any]]:
    made = []
    for key in varied:
        values = sorted({row["settings"][key] for row in table}, key=_order)
        # Of a range, every trial has a value of its own, and the best five say what there is to say.
        for value in values if len(values) <= MOST_ROWS else ():
            of_value = [row for row in table if row["settings"][key] == value]
            scores = [row[metric] for row in of_value]
            finished = f"{sum(row['state'] == 'finished' for row in of_value)} of {len(of_value)}"
            shown = {f"best_{metric}": max(scores), "median": statistics.median(scores)}
            made.append({"setting": key, "value": str(value), **shown, "finished": finished})
    return made


def conditions(name: str, runs: Path) -> str:
    """What all trainings of a figure have in common, what was cut, and how long they took."""
    found, told = rows(name, runs), _told(FIGURES[name])
    if not FIGURES[name].found:
        settings = [row["settings"] for row in found]
        same = {k: v for k, v in settings[0].items() if all(str(s[k]) == str(v) for s in settings)}
        told = {**same, **told}
    cut = "" if FIGURES[name].found else f" {_what_was_cut(name, runs)}"
    minutes = sum(row["seconds"] for row in found) / 60
    return f"In all: {_words(told) or 'the recipe'}.{cut} {minutes:.0f} minutes of training, one thread each."


def write(name: str, runs: Path, out: Path) -> None:
    """The file of a figure."""
    figure = FIGURES[name]
    ways = [out_of for way in ("recipe", "found") for *_, out_of in _trainings(figure, runs / name / way)]
    record(
        "tuning_results",
        out / f"tuning_{name}.json",
        origin_of(ways if figure.found else [runs / name]),
        title=figure.title or name,
        section="Settings",
        task=Path(figure.recipe).stem.partition("_")[0],
        conditions=conditions(name, runs),
        precision=_told(figure).get("training.precision", "float32"),
        seeds=SEEDS if figure.found else (plan_of(runs / name).recipe.seed,),
        uncertainty=f"± is the standard deviation over {'seeds' if figure.found else 'folds'}.",
        rows=figures(name, runs),
    )


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
    return next(iter(task_of(Path(figure.recipe).stem.partition("_")[0]).metrics))


def _told(figure: Figure) -> dict[str, str]:
    parts = (change.partition("=") for change in figure.changes)
    return {key: value for key, _, value in parts}


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in settings.items())


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, str(value)


def main() -> None:
    """Search and train what is missing, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/tuning"))
    parser.add_argument("--only", nargs="+", choices=list(FIGURES), default=list(FIGURES))
    parser.add_argument("--parallel", type=int, default=2, help="trainings at once of a gain")
    parser.add_argument("--table", action="store_true", help="print what there is, train and write nothing")
    parser.add_argument("--json", action="store_true")
    add_out_folder(parser)
    options = parser.parse_args()
    runs = options.runs.resolve()
    runs.mkdir(parents=True, exist_ok=True)
    failed = []
    if not options.table:
        for name in options.only:
            of_gain = FIGURES[name].found
            if compare(name, runs, options.parallel) if of_gain else sweep(name, runs):
                failed.append(name)
    found = {name: figures(name, runs) for name in options.only}
    for name in () if options.table else filter(found.get, found):
        write(name, runs, options.out)
    if options.json:
        print(json.dumps({"rows": [row for name in options.only for row in rows(name, runs)]}))
    else:
        told = (
            part for name in found if found[name] for part in (*tables(found[name]), conditions(name, runs))
        )
        print("\n\n".join(told))
    for name in failed:
        print(f"failed: {name}, see the logs in {runs}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
