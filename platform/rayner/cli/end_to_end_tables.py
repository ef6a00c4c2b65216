"""What people read on a terminal about a whole pipeline: scores, losses, and what each part costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.text import Text

from rayner.cli.linking_tables import table_of, titled
from rayner.cli.printing import percent, percents, visible
from rayner.metrics.outcome_names import BOUND_NAMES, GIVEN_NAMES, LEVEL_NAMES, OUTCOME_NAMES


def end_to_end_tables(whole: Mapping[str, Any]) -> Group:
    """The metrics of `score_end_to_end` in percent."""
    tables = [_levels(whole), _outcomes(whole)]
    if whole["accuracy"]:
        tables += [_accuracy(whole), _bounds(whole)]
    return Group(*tables)


def _levels(whole: Mapping[str, Any]) -> Group:
    table = table_of("right in", "precision", "recall", "F1", "interval", "mentions")
    intervals = (whole.get("intervals") or {}).get("levels", {})
    unknown = whole["unknown"]
    for name, scores in whole["levels"].items():
        if name == "known_entity" and not unknown["mentions"]:
            continue
        values = [percent(scores[metric]) for metric in ("precision", "recall", "f1")]
        interval = _interval((intervals.get(name) or {}).get("f1"))
        table.add_row(LEVEL_NAMES[name], *values, interval, f"{scores['support']:,}")
    shown = titled("The whole pipeline", table)
    if not unknown["mentions"]:
        return shown
    note = f"{unknown['mentions']:,} gold mentions have an entity that the knowledge base lacks"
    return Group(shown, Text(visible(f"{note}, as {unknown['ids'][0]}", True), "italic"))


def _outcomes(whole: Mapping[str, Any]) -> Group:
    table = table_of("gold mentions", "number", "share", "interval")
    intervals = (whole.get("intervals") or {}).get("shares", {})
    for name, count in whole["outcomes"].items():
        if count:
            share = percent(whole["shares"][name])
            style = "bold" if name == "right" else None
            row = OUTCOME_NAMES[name], f"{count:,}", share, _interval(intervals.get(name))
            table.add_row(*row, style=style, end_section=name == "right")
    spurious = whole["spurious"]
    linked = f", {spurious['linked']:,} of them with an entity" if whole["accuracy"] else ""
    note = f"and {spurious['mentions']:,} predictions where there is no gold mention{linked}"
    return Group(titled("Where the gold mentions end", table), Text(note, "italic"))


def _accuracy(whole: Mapping[str, Any]) -> Group:
    table = table_of("entities, given", "right", "known entity", "among candidates", "NIL", "mentions")
    for given, scores in whole["accuracy"].items():
        values = [percent(scores[name]) for name in ("entity", "known", "candidates", "nil")]
        table.add_row(GIVEN_NAMES[given], *values, f"{scores['mentions']:,}")
    return titled("The linking alone", table)


def _bounds(whole: Mapping[str, Any]) -> Group:
    table = table_of("if perfect", "F1", "gain", "interval of F1")
    intervals = (whole.get("intervals") or {}).get("bounds", {})
    now = whole["bounds"]["as_is"]
    for name, value in whole["bounds"].items():
        gain = "" if name == "as_is" or value is None else f"{100 * (value - now):+.1f}"
        table.add_row(BOUND_NAMES[name], percent(value), gain, _interval(intervals.get(name)))
    return titled("F1 of the whole if one part were perfect", table)


def _interval(pair: Sequence[float] | None) -> str:
    return "" if pair is None else percents(pair)
