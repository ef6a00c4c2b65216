"""Tables of scores and lists of findings on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from rayner.cli.linking_tables import linking_table, titled
from rayner.cli.output import print_summary

MOST_FINDINGS = 20


def print_findings(found: Mapping[str, Any]) -> None:
    """The first findings of a check, errors before warnings, and its counts."""
    console = Console()
    findings = sorted(found["findings"], key=lambda finding: finding["severity"] != "error")
    for finding in findings[:MOST_FINDINGS]:
        console.print(finding_line(finding), soft_wrap=True)
    if len(findings) > MOST_FINDINGS:
        console.print(f"... and {len(findings) - MOST_FINDINGS:,} more; --json prints them all\n")
    print_summary(found)


def print_metrics(metrics: Mapping[str, Any], title: str) -> None:
    """Scores per type where the metrics have them, those of linking, or else every number."""
    console = Console()
    if "per_type" in metrics and "f1" in metrics:
        console.print(scores_table(metrics, title))
    elif "top1" in metrics:
        console.print(linking_table(metrics, title))
    else:
        console.print(numbers_table(metrics, title))


def print_training(result: Mapping[str, Any], commands: Sequence[str]) -> None:
    """Scores on the development set, what the run took, and the commands that may come next."""
    print_metrics(result["metrics"], "development set")
    print_summary(result, commands)


def scores_table(metrics: Mapping[str, Any], title: str) -> Group:
    """Precision, recall and F1 of each type and of all, in percent, from the metrics of `score_spans`."""
    table = Table(caption_justify="left")
    table.add_column("type")
    for name in ("precision", "recall", "F1", "mentions"):
        table.add_column(name, justify="right")
    for name, scores in metrics.get("per_type", {}).items():
        table.add_row(Text(name), *_row(scores))
    table.add_section()
    table.add_row("all", *_row(metrics), style="bold")
    if interval := metrics.get("intervals", {}).get("f1"):
        table.caption = "95 % interval of F1: {} to {}".format(*map(percent, interval))
    return titled(title, table)


def numbers_table(metrics: Mapping[str, Any], title: str) -> Group:
    """Every number at the top level of the metrics: fractions as percentages, counts as they are."""
    table = Table(show_header=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in metrics.items():
        if isinstance(value, float):
            table.add_row(Text(name), percent(value))
        elif isinstance(value, int):
            table.add_row(Text(name), f"{value:,}")
    return titled(title, table)


def finding_line(finding: Mapping[str, Any]) -> Text:
    """What is wrong where, and what to do about it, as compilers write it."""
    severity, hint = finding["severity"], finding["hint"]
    line = Text(f"{finding['where']}: ").append(severity, "bold red" if severity == "error" else "yellow")
    return line.append(f": {finding['what']}" + (f"; {hint}" if hint else ""))


def percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * fraction:.1f}"


def _row(scores: Mapping[str, Any]) -> list[str]:
    fractions = [percent(scores[name]) for name in ("precision", "recall", "f1")]
    return [*fractions, f"{scores['support']:,}" if "support" in scores else ""]
