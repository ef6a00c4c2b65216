"""What people read on a terminal about linking: scores, answers, proposals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from rayner.cli.printing import percent, percents, visible

MOST_ROWS = 100
_GROUPS = {"all": "all", "seen": "indexed names", "unseen": "other strings"}
_SCORES = {"top1": "top 1", "top3": "top 3", "top5": "top 5", "mrr": "MRR", "accuracy": "accuracy"}
_NIL = {"nil_precision": "precision", "nil_recall": "recall", "nil_auc": "area under the ROC"}


def titled(title: str, table: Table) -> Group:
    """The table below a title, which rich would wrap at the table's width."""
    return Group(Text(title, "italic"), table)


def table_of(first: str, *others: str) -> Table:
    """A table whose other columns hold numbers."""
    table = Table(caption_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def linking_table(metrics: Mapping[str, Any], title: str) -> Group:
    """The metrics of `score_linking` in percent: of all mentions, and of seen and unseen strings."""
    table = Table(caption_justify="left")
    table.add_column("strings", no_wrap=True)
    for name in (*_SCORES.values(), "mentions"):
        table.add_column(name, justify="right")
    for group, name in _GROUPS.items():
        scores = metrics if group == "all" else metrics.get(group)
        if scores is not None and scores["mentions"]:
            table.add_row(name, *(percent(scores.get(key)) for key in _SCORES), f"{scores['mentions']:,}")
    counts = (metrics.get("errors") or {}).get("counts", {})
    mistakes = [f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if count]
    interval = (metrics.get("intervals") or {}).get("top1")
    nil = [f"{name} {percent(metrics[key])}" for key, name in _NIL.items() if metrics.get(key) is not None]
    lines = [
        f"95 % interval of top 1: {percents(interval)}" if interval else "",
        _denominator(metrics),
        f"NIL: {', '.join(nil)}" if nil else "",
        f"mistakes: {', '.join(mistakes)}" if mistakes else "",
    ]
    table.caption = "\n".join(filter(None, lines)) or None
    return titled(title, table)


def _denominator(metrics: Mapping[str, Any]) -> str:
    nil = metrics.get("nil")
    return f"top k and MRR: of the {metrics['linkable']:,} with an entity; {nil:,} have none" if nil else ""


def answers_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The first answers: the entity, and the next candidate."""
    from rayner.data.mention_strings import ids_within

    table = Table()
    table.add_column("mention", no_wrap=True, max_width=40)
    table.add_column("entity", no_wrap=True, max_width=40)
    table.add_column("id", no_wrap=True, max_width=30)
    for name in ("score", "prob."):
        table.add_column(name, justify="right", no_wrap=True, min_width=5)
    table.add_column("next", no_wrap=True, max_width=30)
    for row in rows[:MOST_ROWS]:
        linked = row["entity_id"] is not None
        within = ids_within(row["entity_id"]) if linked else set()
        why = "" if row["candidates"] else f": {row['reason']}"
        others = [found["name"] for found in row["candidates"] if found["entity_id"] not in within]
        table.add_row(
            _text(row["mention"] or f"(line {row['line']})"),
            _text(row["name"]) if linked else Text(f"NIL{why}", "dim"),
            _text(row["entity_id"] or ""),
            _number(row["score"]),
            _number(row["probability"] if row["candidates"] else None),
            _text(others[0] if others else ""),
        )
    return table


def proposals_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The first proposals, and the entity nearest to each."""
    table = Table("name", "other names")
    table.add_column("mentions", justify="right")
    table.add_column("nearest entity")
    table.add_column("score", justify="right")
    for row in rows[:MOST_ROWS]:
        near = row["nearest"]
        table.add_row(
            _text(row["name"]),
            _text(", ".join(row["aliases"])),
            f"{row['mentions']:,}",
            _text(near["name"] if near else ""),
            _number(near and near["score"]),
        )
    return table


def _text(text: str) -> Text:
    return Text(visible(text, True))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
