"""What the plots of a report share: inline SVG that takes its colours from the page.

matplotlib makes folders when it is imported, so it is imported when something is drawn.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence, Sized
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from rayner.metrics.shown import is_fraction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# matplotlib knows no CSS: it draws in these stand-ins, and svg puts the page's colours in their place.
INK = "#010203"
SERIES = ("#010301", "#010302", "#010303", "#010304", "#010305", "#010306")
_CSS = {INK: "currentColor", **{colour: f"var(--series-{i})" for i, colour in enumerate(SERIES, 1)}}
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rayner",
    "text.parse_math": False,
    "font.size": 10,
    "font.family": ["DejaVu Sans"],
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "D", "^")
"""For lines beyond those that have a colour of their own, as the dashes."""
WIDTH = 9.0
"""Inches."""

Points = tuple[Sequence[float], Sequence[float]]
"""x and y."""


def svg(title: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Draw a figure of this size in inches; the title is what is read aloud."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {**_STYLE, "svg.hashsalt": title}
    with rc_context(style), warnings.catch_warnings():
        # Texts are measured by a font that lacks most scripts; the page's own fonts draw them.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(size, layout="constrained")
        draw(figure)
        # A legend below the axes changes what the layout has measured: one pass leaves labels cut off.
        figure.draw_without_rendering()
        text = StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub("|".join(_CSS), lambda match: _CSS[match[0]], svg)
    svg = svg.replace("'DejaVu Sans'", "system-ui, sans-serif")
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)


def side_by_side(figure: Figure, count: int) -> list[Axes]:
    """So many axes in a row."""
    return list(figure.subplots(1, count, squeeze=False)[0])


def bar_size(rows: int) -> tuple[float, float]:
    """The size of a figure of horizontal bars."""
    return WIDTH, 0.7 + 0.32 * max(rows, 2)


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Put names beside horizontal bars, the first on top."""
    axes.set_yticks(range(len(names)), [short(name) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labeltop=len(names) > 15)


def percent_axis(axis: Axis) -> None:
    """Label fractions as percentages, with the decimals that tell neighbours apart."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{round(100 * value, 4):g}%"))


def score_axis(axis: Axis, *metrics: str) -> None:
    """Label scores as percentages where all are fractions."""
    if all(map(is_fraction, metrics)):
        percent_axis(axis)


def whole_axis(axis: Axis, ticks: int) -> None:
    """Label whole numbers only, at about so many ticks."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(ticks, integer=True, min_n_ticks=1))


def short(name: str, most: int = 32) -> str:
    """The name, its middle cut to what fits beside a bar: paths differ at their ends."""
    end = most // 2
    return name if len(name) <= most else f"{name[: most - 1 - end]}…{name[-end:]}"


def marker_of(points: Sized) -> str:
    """That of a line, which one point alone does not make."""
    return "o" if len(points) == 1 else ""
