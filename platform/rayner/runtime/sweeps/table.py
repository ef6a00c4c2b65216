"""The trials of a sweep as a table: the searched keys, the metrics, the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rayner.runtime.sweeps.settings import SECONDS
from rayner.runtime.sweeps.trials import Plan, Trial

if TYPE_CHECKING:
    from rich.table import Table


def trials_table(trials: Sequence[Trial], plan: Plan, rows: int | None = None) -> Table:
    """Trials that run first, then by the first objective; the rest in one line."""
    from rich.table import Table

    objectives = [objective.metric for objective in plan.settings.objectives]
    known = dict.fromkeys(key for trial in trials for key in trial.settings)
    keys = [key for key in known if key not in plan.fixed]
    names = short_names(keys)
    table = Table(title_justify="left", box=None, pad_edge=False)
    for name in ("", *names.values()):
        table.add_column(name, justify="right")
    columns = list(dict.fromkeys((*objectives, "epochs", SECONDS)))
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("state")
    ordered = sorted(trials, key=lambda t: (t.state != "running", *rank_of(t, plan)))
    for trial in ordered[:rows]:
        numbers = [
            _shown(name, trial.last.get(name)) for name in dict.fromkeys((*objectives, "epochs", SECONDS))
        ]
        values = [str(trial.settings.get(key, "")) for key in keys]
        style = "bold" if trial.state == "running" else "dim" if trial.state in ("stopped", "failed") else ""
        table.add_row(str(trial.number), *values, *numbers, trial.state, style=style)
    if rows is not None and len(ordered) > rows:
        table.caption = f"and {len(ordered) - rows} more"
    return table


def rank_of(trial: Trial, plan: Plan) -> tuple[bool, float]:
    """Sorts finished trials from the best to the worst by the first objective, and others after them."""
    objective = plan.settings.objectives[0]
    value = trial.last.get(objective.metric)
    if value is None or value != value:
        return True, 0.0
    return trial.state != "finished", -value if objective.mode == "max" else value


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each dotted key, or all of it where two have the same."""
    ends = [key.rpartition(".")[2] for key in keys]
    return {key: end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)}


def line_of(trial: Trial, plan: Plan, trials: int | None) -> str:
    """A trial on one line."""
    names = short_names([key for key in trial.settings if key not in plan.fixed])
    settings = "  ".join(f"{name} {trial.settings[key]}" for key, name in names.items())
    shown = trial.last
    scores = "  ".join(
        f"{o.metric} {_shown(o.metric, shown.get(o.metric))}" for o in plan.settings.objectives
    )
    total = f"/{trials}" if trials else ""
    spread = "" if trial.spread is None else f" (deviation {100 * trial.spread:.1f})"
    end = f"{trial.state}: {trial.error}" if trial.error else trial.state
    return (
        f"trial {trial.number}{total}  {settings}  {scores}{spread}  {shown.get('epochs', 0):g} epochs  "
        f"{shown.get(SECONDS, 0):.0f} s  {end}"
    )


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if name in (SECONDS, "epochs") else f"{100 * value:.1f}"
