"""The plots of a report about a sweep."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rayner.runtime.reports.drawing import INK, SERIES, WIDTH, score_axis, short, svg, whole_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_CURVES_NAMED = 5
_LOG_FROM = 20
"""Numbers whose largest is so many times their smallest are drawn on a logarithmic axis."""
_CHARACTERS_BELOW_AN_AXIS = 28
"""Names that have more together would overlap, and are turned."""


@dataclass(frozen=True, slots=True)
class Point:
    """A trial in a plot: its score, and whether it went all the way."""

    number: int
    settings: Mapping[str, Any]
    score: float
    finished: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """The scores of a trial over epochs; `rank` is 0 for the best."""

    number: int
    epochs: Sequence[float]
    scores: Sequence[float]
    finished: bool
    rank: int


def effects(points: Sequence[Point], names: Mapping[str, str], metric: str) -> str:
    """The score against each searched key; `names`: key -> what the axis says."""
    columns = min(3, len(names))
    rows = -(-len(names) // columns)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, (key, name) in zip(grid.ravel(), names.items(), strict=False):
            values = [point.settings.get(key) for point in points]
            x, ticks = _positions(values)
            for finished in (False, True):
                chosen = [i for i, point in enumerate(points) if point.finished == finished]
                axes.plot(
                    [x[i] for i in chosen],
                    [points[i].score for i in chosen],
                    "o",
                    color=SERIES[0],
                    fillstyle="full" if finished else "none",
                    alpha=0.85 if finished else 0.5,
                    markersize=5.5,
                    label="finished" if finished else "not finished",
                )
            if ticks is not None:
                _medians(axes, x, points)
            _ticks(axes, values, ticks)
            axes.set_xlabel(short(name))
            score_axis(axes.yaxis, metric)
        for axes in grid.ravel()[len(names) :]:
            axes.remove()
        for axes in grid[:, 0]:
            axes.set_ylabel(metric)
        lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
        shown = {name: line for name, line in lines.items() if name[0] != "_" and np.size(line.get_xdata())}
        figure.legend(shown.values(), list(shown), loc="outside upper right", ncols=3, fontsize=9)

    return svg(f"{metric} against each searched setting", (WIDTH, 0.5 + 2.3 * rows), draw)


def interactions(points: Sequence[Point], pairs: Sequence[tuple[str, str]], names: Mapping[str, str]) -> str:
    """Pairs of keys against each other: a larger trial, stronger in colour, has a better score.

    Args:
        points: the best trial first, which need not have the best score, as one that was stopped has its own.
    """
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    scores = np.array([point.score for point in points])
    # By rank: a few trials that learned nothing must not make all others look alike.
    weights = np.argsort(np.argsort(scores)) / max(len(scores) - 1, 1)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, (one, other) in zip(grid.ravel(), pairs, strict=False):
            for key, way in ((one, "x"), (other, "y")):
                values = [point.settings.get(key) for point in points]
                place, ticks = _positions(values)
                _ticks(axes, values, ticks, way)
                getattr(axes, f"set_{way}label")(short(names[key]))
                # Trials of a grid lie on each other where the other settings differ.
                spread = _spread(len(points), way) if ticks is not None else 0.0
                place = np.asarray(place, float) + spread
                if way == "x":
                    x = place
                else:
                    y = place
            for i in np.argsort(scores):
                size = 20 + 130 * weights[i]
                axes.scatter(x[i], y[i], s=size, color=SERIES[0], alpha=0.15 + 0.75 * weights[i], linewidth=0)
            axes.scatter(x[0], y[0], s=190, facecolor="none", edgecolor=INK, linewidth=1.2)
        for axes in grid.ravel()[len(pairs) :]:
            axes.remove()

    return svg("Pairs of settings", (WIDTH, 0.3 + 2.7 * rows), draw)


def learning_curves(curves: Sequence[Curve], metric: str) -> str:
    """The score of each trial over epochs; those that were stopped are thin and dashed."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawn: list[set[Any]] = []
        for curve in sorted(curves, key=lambda c: c.rank):
            named = curve.finished and curve.rank < _MOST_CURVES_NAMED
            # Of trials with equal scores the worse lies on the better, with gaps through which that shows.
            pieces = set(itertools.pairwise(zip(curve.epochs, np.round(curve.scores, 3), strict=True)))
            beneath = sum(bool(pieces & other) for other in drawn)
            gaps = (0, (4 * (_MOST_CURVES_NAMED - beneath), 4 * beneath)) if beneath else "-"
            if named:
                drawn.append(pieces)
            colour = SERIES[curve.rank % len(SERIES)] if named else INK
            axes.plot(
                curve.epochs,
                curve.scores,
                linestyle=gaps if named else "-" if curve.finished else "--",
                color=colour,
                linewidth=2.4 if curve.rank == 0 else 1.8 if named else 0.9,
                zorder=2.5 if named else 2,
                alpha=1 if named else 0.35,
                marker="o" if len(curve.epochs) == 1 else "",
                markersize=14 - 2.5 * curve.rank if named else 3,
                label=f"trial {curve.number}" if named else "_",
            )
        axes.set(xlabel="epochs, of all runs of a trial", ylabel=metric)
        score_axis(axes.yaxis, metric)
        whole_axis(axes.xaxis, 10)
        if any(curve.finished for curve in curves):
            figure.legend(loc="outside upper right", ncols=_MOST_CURVES_NAMED, fontsize=9)

    return svg(f"{metric} of each trial over epochs", (WIDTH, 3.6), draw)


def pareto_front(rows: Sequence[tuple[int, float, float, bool]], metric: str, more_is_better: bool) -> str:
    """Quality against cost; rows: (number, seconds, score, whether on the front)."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        front = sorted(row[1:3] for row in rows if row[3])
        axes.step(*zip(*front, strict=True), where="post", color=SERIES[1], linewidth=1.4, label="front")
        for number, seconds, score, on_front in rows:
            colour = SERIES[1] if on_front else SERIES[0]
            axes.plot(seconds, score, "o", color=colour, markersize=6.5 if on_front else 5, alpha=0.85)
            if on_front:
                offset = (5, -11) if more_is_better else (5, 5)
                axes.annotate(f"{number}", (seconds, score), offset, textcoords="offset points", fontsize=8.5)
        axes.set(xlabel="seconds of training", ylabel=metric)
        score_axis(axes.yaxis, metric)

    return svg(f"{metric} against seconds of training", (WIDTH, 3.2), draw)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _positions(values: Sequence[Any]) -> tuple[list[float], list[str] | None]:
    """Where values lie on an axis, and the names of its ticks where they are words or few numbers."""
    distinct = {str(value): value for value in values}
    numbers = all(_is_number(value) for value in distinct.values())
    if numbers and len(distinct) > max(6, len(values) / 3):
        return [float(value) for value in values], None
    order = sorted(distinct, key=lambda name: distinct[name]) if numbers else sorted(distinct)
    return [float(order.index(str(value))) for value in values], order


def _ticks(axes: Axes, values: Sequence[Any], ticks: list[str] | None, way: str = "x") -> None:
    if ticks is not None:
        getattr(axes, f"set_{way}ticks")(range(len(ticks)), [short(name) for name in ticks])
        getattr(axes, f"set_{way}lim")(-0.5, len(ticks) - 0.5)
        if way == "x" and sum(map(len, ticks)) > _CHARACTERS_BELOW_AN_AXIS:
            for label in axes.get_xticklabels():
                label.set(rotation=15, ha="right", rotation_mode="anchor")
    elif min(values) > 0 and max(values) / min(values) >= _LOG_FROM:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        getattr(axes, f"set_{way}scale")("log")
        # The usual labels are formulas, which the page does not typeset.
        axis = getattr(axes, f"{way}axis")
        axis.set_major_locator(LogLocator(numticks=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def _medians(axes: Axes, x: Sequence[float], points: Sequence[Point]) -> None:
    places = sorted(set(x))
    if len(places) == len(x):
        return
    for place in places:
        median = np.median([p.score for p, at in zip(points, x, strict=True) if at == place])
        axes.plot((place - 0.2, place + 0.2), (median, median), color=INK, linewidth=1.4, label="median")


def _spread(count: int, way: str) -> np.ndarray:
    return np.random.default_rng(way == "x").uniform(-0.18, 0.18, count)
