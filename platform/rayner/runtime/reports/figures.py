"""The plots of a report about a task over documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import gaussian_kde

from rayner.runtime.reports.drawing import (
    DASHES,
    INK,
    MARKERS,
    SERIES,
    WIDTH,
    Points,
    bar_size,
    name_bars,
    percent_axis,
    score_axis,
    short,
    side_by_side,
    svg,
    whole_axis,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def training_curves(losses: Mapping[str, Points], scores: Mapping[str, Points], rates: Points) -> str:
    """Loss by part, dev scores and the learning rate against steps; absent ones are left out."""
    panels: list[tuple[str, Mapping[str, Points], bool]] = [
        ("loss", losses, False),
        ("dev", scores, True),
        ("learning rate", {"": rates} if len(rates[0]) else {}, False),
    ]
    panels = [panel for panel in panels if panel[1]]

    def draw(figure: Figure) -> None:
        for axes, (title, lines, marked) in zip(side_by_side(figure, len(panels)), panels, strict=True):
            for i, (name, (x, y)) in enumerate(lines.items()):
                turn = i // len(SERIES)
                # A short run has one point, of which there is no line.
                marker = MARKERS[turn % len(MARKERS)] if marked or len(x) == 1 else ""
                color, style = SERIES[i % len(SERIES)], DASHES[turn % len(DASHES)]
                axes.plot(x, y, style, color=color, label=name, marker=marker, markersize=4)
            axes.set(title=title, xlabel="step")
            whole_axis(axes.xaxis, 5)
            axes.yaxis.set_major_formatter("{x:g}")
            if title == "dev":
                score_axis(axes.yaxis, *lines)
            if any(lines):
                axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)

    rows = -(-max(len(lines) for _, lines, _ in panels) // 2)
    return svg("Training curves", (WIDTH, 2.7 + 0.2 * rows), draw)


def type_bars(rows: Sequence[tuple[str, float, Sequence[float] | None]]) -> str:
    """F1 of each type with its interval, the first row on top; rows (type, f1, [low, high] or None)."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for y, (_, f1, interval) in enumerate(rows):
            axes.barh(y, f1, color=SERIES[0], height=0.62, alpha=0.75)
            if interval is not None:
                axes.plot(interval, (y, y), color=INK, marker="|", markersize=7, linewidth=1.4)
        name_bars(axes, [name for name, _, _ in rows])
        axes.set(xlim=(0, 1), xlabel="F1")
        percent_axis(axes.xaxis)

    return svg("F1 of each type with its confidence interval", bar_size(len(rows)), draw)


def threshold_shift(curve: Mapping[str, np.ndarray], best: float) -> str:
    """Precision, recall and F1 against the shift of all thresholds; `best` is marked."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for i, (name, label) in enumerate((("precision", "precision"), ("recall", "recall"), ("f1", "F1"))):
            axes.plot(curve["shift"], curve[name], DASHES[(1, 2, 0)[i]], color=SERIES[i], label=label)
        axes.axvline(0, color=INK, linewidth=1, alpha=0.6)
        axes.axvline(best, color=SERIES[2], linewidth=1, linestyle=":")
        top = axes.get_xaxis_transform()
        side = 1 if best >= 0 else -1
        for x, text, way in ((0, "as trained", -side), (best, "best F1", side)):
            align = "left" if way > 0 else "right"
            axes.annotate(
                text, (x, 1), (4 * way, -2), xycoords=top, textcoords="offset points", fontsize=8, ha=align
            )
        axes.set(xlabel="shift of every threshold", ylim=(0, 1.09))
        percent_axis(axes.yaxis)
        figure.legend(loc="outside upper right", ncols=3, fontsize=9)

    return svg("Precision, recall and F1 against a shift of the thresholds", (WIDTH, 3.1), draw)


def similarity_densities(samples: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Density of the similarities to each type (papers/000, figure 2); type -> kind of span -> values.

    Each curve is scaled by its own maximum: thresholds hardly differ, and their curve would hide the others.
    """
    kinds = list(dict.fromkeys(kind for values in samples.values() for kind in values))
    everything = np.concatenate([v for values in samples.values() for v in values.values()])
    margin = 0.05 * max(float(np.ptp(everything)), 1e-3)
    x = np.linspace(everything.min() - margin, everything.max() + margin, 300)
    columns = 2 if len(samples) == 4 else min(3, len(samples))
    rows = -(-len(samples) // columns)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, sharex=True, squeeze=False).ravel()
        for axes, (name, values) in zip(grid, samples.items(), strict=False):
            for kind, sample in values.items():
                i = kinds.index(kind)
                if len(sample) < 3 or np.ptp(sample) < 1e-6:
                    axes.axvline(sample.mean(), linestyle=DASHES[i % 4], color=SERIES[i % 6], label=kind)
                    continue
                # Finer where the sample lies, so that a narrow curve has its peak.
                own = np.union1d(x, np.linspace(sample.min(), sample.max(), 100))
                density = gaussian_kde(sample)(own)
                density /= density.max()
                axes.fill_between(own, density, color=SERIES[i % 6], alpha=0.18, linewidth=0)
                axes.plot(own, density, DASHES[i % 4], color=SERIES[i % 6], label=kind)
            axes.set(title=short(name), yticks=[], ylim=(0, 1.08))
        for axes in grid[len(samples) :]:
            axes.remove()
        for axes in grid[max(0, len(samples) - columns) : len(samples)]:
            axes.tick_params(labelbottom=True)
        lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
        figure.legend(lines.values(), list(lines), loc="outside upper right", ncols=len(lines), fontsize=9)
        figure.supxlabel("similarity to the type", fontsize=10)

    return svg("Density of similarities", (WIDTH, 0.8 + 1.9 * rows), draw)


def error_bars(per_type: Mapping[str, Mapping[str, int]], categories: Mapping[str, str]) -> str:
    """Mistakes of each type by category, stacked; `categories`: key -> name."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        left = np.zeros(len(per_type))
        for i, (key, name) in enumerate(categories.items()):
            widths = np.array([row[key] for row in per_type.values()], float)
            # The thin gap keeps neighbours apart for those who cannot tell the colours.
            axes.barh(
                np.arange(len(left)),
                widths,
                left=left,
                height=0.62,
                color=SERIES[i % 6],
                label=name,
                alpha=0.9,
            )
            for y in np.flatnonzero(left * widths):
                axes.plot(
                    (left[y], left[y]), (y - 0.31, y + 0.31), color=INK, linewidth=1.2, solid_capstyle="butt"
                )
            left += widths
        name_bars(axes, list(per_type))
        axes.set_xlabel("mistakes")
        whole_axis(axes.xaxis, 8)
        figure.legend(loc="outside upper left", ncols=len(categories), fontsize=9)

    width, height = bar_size(len(per_type))
    return svg("Mistakes of each type by category", (width, height + 0.35), draw)
