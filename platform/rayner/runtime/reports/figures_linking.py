"""The plots of a report about a standardizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rayner.runtime.reports.drawing import (
    INK,
    SERIES,
    WIDTH,
    bar_size,
    marker_of,
    name_bars,
    percent_axis,
    side_by_side,
    svg,
    whole_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Sequence[Mapping[str, float]]


def top_bars(
    groups: Mapping[str, Mapping[str, float]], intervals: Mapping[str, Sequence[float] | None]
) -> str:
    """Top-k of each group of mentions.

    Args:
        groups: name -> (name of a bar -> share); all have the same bars.
        intervals: of the first group's bars, [low, high] or None.
    """
    bars = list(next(iter(groups.values())))
    width = 0.8 / len(bars)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for i, bar in enumerate(bars):
            x = np.arange(len(groups)) + (i - (len(bars) - 1) / 2) * width
            heights = [values[bar] for values in groups.values()]
            axes.bar(x, heights, 0.9 * width, color=SERIES[i], alpha=0.8, label=bar)
            for place, height in zip(x, heights, strict=True):
                axes.annotate(f"{100 * height:.1f}", (place, 0.02), ha="center", fontsize=8)
            if (interval := intervals.get(bar)) is not None:
                axes.plot((x[0], x[0]), interval, color=INK, marker="_", markersize=8, linewidth=1.3)
        axes.set_xticks(range(len(groups)), list(groups))
        axes.grid(visible=False, axis="x")
        axes.tick_params(axis="x", length=0)
        axes.set(ylim=(0, 1.02))
        percent_axis(axes.yaxis)
        figure.legend(loc="outside upper right", ncols=len(bars), fontsize=9)

    return svg("How often the right entity is among the first candidates", (WIDTH, 3.0), draw)


def answer_curves(coverage: Curve, roc: Curve, area: float | None, threshold: float | None) -> str:
    """Accuracy against coverage and, where there are NIL mentions, the ROC curve (papers/002, figure 6).

    Args:
        coverage: rows `coverage, accuracy, confidence`.
        roc: rows `fpr, tpr`; may be empty.
        area: under the ROC curve.
        threshold: the share of mentions that were answered, marked on the first; None for no mark.
    """

    def draw(figure: Figure) -> None:
        first, *second = side_by_side(figure, 2 if roc else 1)
        _coverage(first, coverage, threshold)
        for axes in second:
            axes.plot((0, 1), (0, 1), ":", color=INK, alpha=0.5, linewidth=1)
            axes.plot([p["fpr"] for p in roc], [p["tpr"] for p in roc], color=SERIES[1])
            axes.set(title=f"ROC, area {100 * (area or 0):.1f} %", xlim=(0, 1), ylim=(0, 1.02))
            axes.set(xlabel="NIL mentions given an entity", ylabel="mentions with an entity answered")
            percent_axis(axes.xaxis)
            percent_axis(axes.yaxis)

    return svg("Accuracy against coverage" + (", and ROC curve" if roc else ""), (WIDTH, 3.6), draw)


def mistake_bars(counts: Mapping[str, int]) -> str:
    """Mistakes by category; category -> mistakes."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.barh(range(len(counts)), list(counts.values()), color=SERIES[0], height=0.62, alpha=0.75)
        name_bars(axes, list(counts))
        axes.set_xlabel("mistakes")
        whole_axis(axes.xaxis, 8)

    return svg("Mistakes by category", bar_size(len(counts)), draw)


def _coverage(axes: Axes, points: Curve, threshold: float | None) -> None:
    x, y = ([p[name] for p in points] for name in ("coverage", "accuracy"))
    axes.plot(x, y, color=SERIES[0], marker=marker_of(x))
    if threshold is not None:
        axes.axvline(threshold, color=INK, linewidth=1, linestyle=":")
        top, side = axes.get_xaxis_transform(), -1 if threshold > 0.5 else 1
        axes.annotate(
            "answered",
            (threshold, 0.04),
            (4 * side, 0),
            xycoords=top,
            textcoords="offset points",
            fontsize=8,
            ha="left" if side > 0 else "right",
        )
    axes.set(title="accuracy against coverage", xlabel="most confident mentions", xlim=(0, 1.01))
    axes.set_ylim(min(0.98, 0.95 * min(y)), 1.005)
    percent_axis(axes.xaxis)
    percent_axis(axes.yaxis)
