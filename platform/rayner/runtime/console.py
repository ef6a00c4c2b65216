"""What people read on a terminal: scores, texts with their mentions, a summary and the next command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rayner.data.schema import Document

# Colour-blind safe (Okabe and Ito), readable on dark and on light terminals.
COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#f0e442")


def scores_table(metrics: Mapping[str, Any], title: str) -> Table:
    """Precision, recall and F1 of each type and of all, in percent, from the metrics of `score_spans`."""
    table = Table(title=Text(title), title_justify="left")
    table.add_column("type")
    for name in ("precision", "recall", "F1", "mentions"):
        table.add_column(name, justify="right")
    for name, scores in metrics.get("per_type", {}).items():
        table.add_row(Text(name), *_row(scores))
    table.add_section()
    table.add_row("all", *_row(metrics), style="bold")
    return table


def numbers_table(metrics: Mapping[str, Any], title: str) -> Table:
    """Every number at the top level of the metrics: fractions as percentages, counts as they are."""
    table = Table(title=Text(title), title_justify="left", show_header=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in metrics.items():
        if isinstance(value, float):
            table.add_row(Text(name), percent(value))
        elif isinstance(value, int):
            table.add_row(Text(name), f"{value:,}")
    return table


def colours_of(types: Iterable[str]) -> dict[str, str]:
    """A colour for each type, the same for the same types in the same order."""
    return dict(zip(types, cycle(COLOURS), strict=False))


def marked_text(document: Document, colours: Mapping[str, str]) -> Text:
    """The text with every mention in the colour of its type and the type's name after it.

    A mention inside a longer one, or crossing one that starts earlier, is left unmarked.
    """
    marked, position = Text(), 0
    for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        if mention.start < position:
            continue
        colour = colours.get(mention.type, "bold")
        marked.append(document.text[position : mention.start])
        marked.append(document.text[mention.start : mention.end], style=f"bold {colour}")
        marked.append(f" [{mention.type}]", style=colour)
        position = mention.end
    return marked.append(document.text[position:])


def print_summary(console: Console, facts: Mapping[str, Any], next_commands: Sequence[str]) -> None:
    """One line a fact, then the commands that come next."""
    width = max([len("next"), *map(len, facts)]) + 2
    for name, value in facts.items():
        console.print(Text(f"{name}:".ljust(width), style="bold") + Text(str(value)), soft_wrap=True)
    for i, command in enumerate(next_commands):
        console.print(Text(("" if i else "next:").ljust(width), style="bold") + Text(command), soft_wrap=True)


def percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * fraction:.1f}"


def _row(scores: Mapping[str, Any]) -> list[str]:
    fractions = [percent(scores[name]) for name in ("precision", "recall", "f1")]
    return [*fractions, f"{scores['support']:,}" if "support" in scores else ""]
