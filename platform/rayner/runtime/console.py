"""What people read on a terminal: scores, texts with their mentions, a summary and the next command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rayner.runtime.console_linking import linking_table

if TYPE_CHECKING:
    from rayner.data.schema import Document

# Colour-blind safe (Okabe and Ito), readable on dark and on light terminals.
COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#f0e442")
MOST_FINDINGS = 20
SHOWN_OTHERWISE = {"findings", "metrics", "per_type", "precision", "recall", "f1"}


def print_findings(found: Mapping[str, Any]) -> None:
    """The first findings of a check, errors before warnings, and its counts."""
    console = Console()
    findings = sorted(found["findings"], key=lambda finding: finding["severity"] != "error")
    for finding in findings[:MOST_FINDINGS]:
        console.print(finding_line(finding), soft_wrap=True)
    if len(findings) > MOST_FINDINGS:
        console.print(f"... and {len(findings) - MOST_FINDINGS:,} more; --json prints them all\n")
    print_summary(console, found, [])


def print_metrics(metrics: Mapping[str, Any], title: str) -> None:
    """Scores per type where the metrics have them, those of linking, or else every number."""
    console = Console()
    if "per_type" in metrics:
        console.print(scores_table(metrics, title))
    elif "top1" in metrics:
        console.print(linking_table(metrics, title))
    else:
        console.print(numbers_table(metrics, title))


def print_training(result: Mapping[str, Any], commands: Sequence[str]) -> None:
    """Scores on the development set, what the run took, and the commands that may come next."""
    print_metrics(result["metrics"], "development set")
    print_summary(Console(), result, commands)


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
    if interval := metrics.get("intervals", {}).get("f1"):
        table.caption = "95 % interval of F1: {} to {}".format(*map(percent, interval))
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


def finding_line(finding: Mapping[str, Any]) -> Text:
    """What is wrong where, and what to do about it, as compilers write it."""
    severity, cure = finding["severity"], finding["cure"]
    line = Text(f"{finding['where']}: ").append(severity, "bold red" if severity == "error" else "yellow")
    return line.append(f": {finding['what']}" + (f"; {cure}" if cure else ""))


def colours_of(types: Iterable[str]) -> dict[str, str]:
    """A colour for each type, the same for the same types in the same order."""
    return dict(zip(types, cycle(COLOURS), strict=False))


def marked_text(
    document: Document, colours: Mapping[str, str], entities: Mapping[str, str] | None = None
) -> Text:
    """The text with every mention in the colour of its type, and after it the type and the entity's name.

    `entities` are names by id. A mention inside a longer one, or crossing one that starts earlier, is left
    unmarked.
    """
    marked, position = Text(), 0
    for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        if mention.start < position:
            continue
        colour = colours.get(mention.type, "bold")
        marked.append(document.text[position : mention.start])
        marked.append(document.text[mention.start : mention.end], style=f"bold {colour}")
        name = (entities or {}).get(mention.entity_id or "")
        marked.append(f" [{mention.type}: {name}]" if name else f" [{mention.type}]", style=colour)
        position = mention.end
    return marked.append(document.text[position:])


def print_summary(console: Console, facts: Mapping[str, Any], next_commands: Sequence[str]) -> None:
    """One line a fact, those aside that tables show, then the commands that come next."""
    facts = {name: fact for name, fact in facts.items() if name not in SHOWN_OTHERWISE}
    width = max([len("next"), *map(len, facts)]) + 2
    for name, value in facts.items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
        console.print(Text(f"{name}:".ljust(width), style="bold") + Text(text), soft_wrap=True)
    for i, command in enumerate(next_commands):
        console.print(Text(("" if i else "next:").ljust(width), style="bold") + Text(command), soft_wrap=True)


def percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * fraction:.1f}"


def _row(scores: Mapping[str, Any]) -> list[str]:
    fractions = [percent(scores[name]) for name in ("precision", "recall", "f1")]
    return [*fractions, f"{scores['support']:,}" if "support" in scores else ""]
