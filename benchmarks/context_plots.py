"""The plots of `context_results`, from its result file: papers/001, figures 3 and 4.

python -m benchmarks.context_plots    # writes docs/images/contexts.png
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import TABLEAU_COLORS
from matplotlib.figure import Figure

from benchmarks.context_results import BOOK
from benchmarks.figures import ROOT

RESULT = ROOT / "docs/results/context_novels.json"
IMAGE = ROOT / "docs/images/contexts.png"
SOURCES = {"from the chapter": False, "from the whole novel": True}
SHOWN = {
    "before": "before",
    "after": "after",
    "surrounding": "surrounding",
    "bm25": "BM25",
    "same_noun": "noun in common",
    "random": "random",
    "neural": "ranker",
    "neural (own labels)": "ranker, own labels",
}
COLORS = dict(zip(SHOWN, TABLEAU_COLORS, strict=False))
"""A method has one in all panels."""


def curves(rows: list[dict[str, Any]], of_book: bool) -> dict[str, dict[int, float]]:
    """F1 of each method by the number of contexts, of those that the source of contexts matters to."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.get("trained") == "with contexts" and row["method"].endswith(BOOK) is of_book:
            found[row["method"].removesuffix(BOOK)][row["contexts"]] = row["f1"]["value"]
    return found


def draw(rows: list[dict[str, Any]]) -> Figure:
    """F1 by the number of contexts, one panel a source, and what the ranker gains in each novel."""
    figure = Figure((12, 5), layout="constrained")
    *panels, last = figure.subplots(1, len(SOURCES) + 1)
    none = next(row["f1"]["value"] for row in rows if row.get("method") == "none")
    for axes, (source, of_book) in zip(panels, SOURCES.items(), strict=True):
        axes.axhline(none, color="black", linestyle=":", label="no context")
        for method, values in curves(rows, of_book).items():
            if method != "none":
                color = COLORS[method]
                axes.plot([*values], [*values.values()], marker="o", color=color, label=SHOWN[method])
        axes.set(title=f"Contexts {source}", xlabel="contexts of a sentence", ylabel="F1, %")
        axes.set_xticks(sorted({count for of in curves(rows, of_book).values() for count in of if count}))
    low = min(axes.get_ylim()[0] for axes in panels)
    high = max(axes.get_ylim()[1] for axes in panels)
    for axes in panels:
        axes.set_ylim(low, high)
    _by_novel(last, [row for row in rows if "novel" in row])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=5, fontsize=8)
    figure.legend(*last.get_legend_handles_labels(), loc="outside lower right", fontsize=8)
    return figure


def _by_novel(axes: Axes, novels: list[dict[str, Any]]) -> None:
    methods = [name for name in ("neural", f"neural{BOOK}") if all(name in row for row in novels)]
    for place, method in enumerate(methods):
        gains = [row[method]["value"] - row["none"]["value"] for row in novels]
        heights = [number + 0.4 * place for number in range(len(novels))]
        source = next(name for name, of_book in SOURCES.items() if method.endswith(BOOK) is of_book)
        axes.barh(heights, gains, 0.4, label=f"ranker, {source}")
    axes.set_yticks([number + 0.2 for number in range(len(novels))], [row["novel"] for row in novels])
    axes.tick_params(axis="y", labelsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(title="By novel, one context", xlabel="F1 above no context, points")


def main() -> None:
    """Draw what the result file says."""
    rows = json.loads(RESULT.read_text("utf-8"))["rows"]
    draw(rows).savefig(IMAGE, dpi=90)
    print(IMAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
