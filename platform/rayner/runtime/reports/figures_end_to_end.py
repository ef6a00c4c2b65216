"""The plots of a report about a whole pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rayner.metrics.outcome_names import BOUND_NAMES, OUTCOME_NAMES
from rayner.runtime.reports.drawing import INK, SERIES, bar_size, name_bars, percent_axis, short, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HATCH = {"hatch": "////", "edgecolor": INK, "linewidth": 0}
# Parts of the pipeline by hue; what shares one is told apart by its hatching.
_STYLES: dict[str, dict[str, Any]] = {
    "right": {"color": SERIES[2], "alpha": 0.45},
    "missed": {"color": SERIES[0]},
    "boundary": {"color": SERIES[5]},
    "type": {"color": SERIES[3]},
    "unlinked": {"color": INK, "alpha": 0.3},
    "unknown": {"color": INK, "alpha": 0.6},
    "retrieval": {"color": SERIES[1]},
    "ranking": {"color": SERIES[4]},
    "refused": {"facecolor": SERIES[1], **_HATCH},
    "nil_linked": {"facecolor": SERIES[4], **_HATCH},
}


def outcome_bars(groups: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """Where the gold mentions of each group end, as shares of them.

    Args:
        groups: names, which may be alike, with the gold mentions by outcome.
    """
    totals = [sum(counts.values()) for _, counts in groups]
    shown = [name for name in OUTCOME_NAMES if any(counts.get(name) for _, counts in groups)]
    rows = -(-len(shown) // 4)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        left = np.zeros(len(groups))
        for outcome in shown:
            counts = [counts.get(outcome, 0) for _, counts in groups]
            widths = np.array(counts) / np.maximum(totals, 1)
            style = _STYLES[outcome]
            axes.barh(
                np.arange(len(left)), widths, left=left, height=0.62, label=OUTCOME_NAMES[outcome], **style
            )
            for y in np.flatnonzero(left * widths):
                axes.plot((left[y], left[y]), (y - 0.31, y + 0.31), color=INK, linewidth=0.8)
            left += widths
        name_bars(axes, [f"{short(name, 22)} ({n:,})" for (name, _), n in zip(groups, totals, strict=True)])
        axes.set(xlim=(0, 1), xlabel="gold mentions")
        percent_axis(axes.xaxis)
        if shown:
            figure.legend(loc="outside upper left", ncols=4, fontsize=9)

    width, height = bar_size(len(groups))
    return svg("Where the gold mentions end", (width, height + 0.25 * rows + 0.1), draw)


def bound_bars(bounds: Mapping[str, float | None], intervals: Mapping[str, Sequence[float] | None]) -> str:
    """F1 of the whole as it is, and if one part were perfect."""
    known = {name: value for name, value in bounds.items() if value is not None}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for y, (name, value) in enumerate(known.items()):
            axes.barh(y, value, color=SERIES[0 if y else 2], height=0.62, alpha=0.75)
            if (interval := intervals.get(name)) is not None:
                axes.plot(interval, (y, y), color=INK, marker="|", markersize=7, linewidth=1.4)
        name_bars(axes, [BOUND_NAMES[name] for name in known])
        axes.set(xlim=(0, 1), xlabel="F1 of span, type and entity")
        percent_axis(axes.xaxis)

    return svg("F1 of the whole if one part were perfect", bar_size(len(known)), draw)
