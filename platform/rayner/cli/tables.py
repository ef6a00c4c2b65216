"""Tables of scores and lists of findings on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from rayner.cli.end_to_end_tables import end_to_end_tables
from rayner.cli.linking_tables import linking_table, table_of, titled
from rayner.cli.printing import percent, percents, print_summary, visible
from rayner.counted import counted
from rayner.files.uris import with_uris
from rayner.metrics.shown import shown_score

MOST_ERRORS, MOST_PLACES = 3, 5
MOST_TYPES = 25
_SEVERITIES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def print_findings(found: Mapping[str, Any]) -> None:
    """Each kind of finding once, errors first, of which some with different causes; how many more, and where;
    then the counts."""
    console = Console()
    kinds: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for finding in found["findings"]:
        kinds.setdefault((finding["severity"], finding["kind"]), []).append(finding)
    order = list(_SEVERITIES)
    said = "more" if found.get("unlisted") else "all"
    for (severity, kind), findings in sorted(kinds.items(), key=lambda item: order.index(item[0][0])):
        first: dict[str, Mapping[str, Any]] = {}
        for finding in findings:
            first.setdefault(finding["what"], finding)
        shown = list(first.values())[: MOST_ERRORS if severity == "error" else 1]
        for finding in shown:
            console.print(finding_line(finding), soft_wrap=True)
        others = [finding for finding in findings if not any(finding is one for one in shown)]
        if others:
            places = ", ".join(visible(str(finding["where"]), True) for finding in others[:MOST_PLACES])
            rest = ", ..." if len(others) > MOST_PLACES else ""
            text = f"  and {len(others):,} more of this kind ({kind}): {places}{rest}; --json says {said}"
            console.print(Text(text, "dim"), soft_wrap=True)
    print_summary(found)


def print_metrics(metrics: Mapping[str, Any], title: str) -> None:
    """Scores per type where the metrics have them, those of linking, or else every number."""
    console = Console()
    if "per_type" in metrics and "f1" in metrics:
        console.print(scores_table(metrics, title))
    elif "top3" in metrics:
        console.print(linking_table(metrics, title))
    else:
        console.print(numbers_table(metrics, title))


def print_training(result: Mapping[str, Any], commands: Sequence[str]) -> None:
    """Scores on the development set, what the run took, and the commands that may come next."""
    if result["metrics"]:
        print_metrics(result["metrics"], "development set")
    else:
        Console().print("no development set: this is the model of the last step", soft_wrap=True)
    if "flat_decoding" in result["metrics"]:
        Console().print(added_types_table(result["metrics"]["flat_decoding"]))
    shown = {key: value for key, value in result.items() if key != "best_step"}
    if best := result.get("best_step"):
        shown["steps"] = f"{result['steps']} (best: {best})"
    print_summary(_with_precision(shown), commands)


def print_evaluation(metrics: Mapping[str, Any], title: str, commands: Sequence[str] = ()) -> None:
    """Scores on a corpus, those of a pipeline as a whole too, and the precision where it was not float32."""
    print_metrics(metrics, title)
    if whole := metrics.get("end_to_end"):
        Console().print(end_to_end_tables(whole))
    print_summary(_with_precision({"compute_precision": metrics["compute_precision"]}), commands)


def _with_precision(result: Mapping[str, Any]) -> dict[str, Any]:
    """The precision only where it was lowered, or where that would have saved time."""
    shown = {k: v for k, v in result.items() if k not in ("compute_precision", "bfloat16_time")}
    if share := result.get("bfloat16_time"):
        shown["computed in"] = f"float32; bfloat16 takes {share:.2f} of its time here (--precision auto)"
    elif result["compute_precision"] != "float32":
        shown["computed in"] = result["compute_precision"]
    return shown


def scores_table(metrics: Mapping[str, Any], title: str) -> Group:
    """Precision, recall and F1 of each type (of many, of those with most mentions) and of all, in percent,
    from the metrics of `score_spans`."""
    table = table_of("type", "precision", "recall", "F1", "mentions")
    per_type = metrics.get("per_type", {})
    shown = list(per_type)
    if len(shown) > MOST_TYPES:
        shown = sorted(shown, key=lambda name: -per_type[name]["support"])[:MOST_TYPES]
    for name in shown:
        table.add_row(Text(visible(name, True)), *_row(per_type[name]))
    table.add_section()
    table.add_row("all", *_row(metrics), style="bold")
    notes = []
    if left_out := len(per_type) - len(shown):
        others = counted(left_out, "other")
        notes.append(f"the {len(shown)} types with most mentions; --json has {others} too")
    if interval := metrics.get("intervals", {}).get("f1"):
        notes.append(f"95 % interval of F1: {percents(interval)}")
    if (error := metrics.get("calibration_error")) is not None:
        notes.append(f"expected calibration error of the scores: {percent(error)}")
    table.caption = "\n".join(notes) or None
    return titled(title, table)


def added_types_table(found: Mapping[str, Any]) -> Group:
    """What the mentions of the types that were there lose to added types in flat decoding."""
    columns = ("found before", "after", "lost", "of these right", "gained", "F1 before", "after")
    table = table_of("type", *columns)
    for name, row in found["per_type"].items():
        table.add_row(Text(visible(name, True)), *_effects(row))
    table.add_section()
    table.add_row("all", *_effects(found), style="bold")
    return titled("the types that were there, without and with the added ones", table)


def numbers_table(metrics: Mapping[str, Any], title: str) -> Group:
    """Every number at the top level of the metrics: fractions as percentages, others as they are."""
    table = Table(show_header=False)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in metrics.items():
        if isinstance(value, float):
            table.add_row(Text(name), shown_score(name, value))
        elif isinstance(value, int):
            table.add_row(Text(name), f"{value:,}")
    return titled(title, table)


def finding_line(finding: Mapping[str, Any]) -> Text:
    """What is wrong where, and what to do about it, as compilers write it."""
    severity, hint = finding["severity"], finding["hint"]
    line = Text(visible(f"{finding['where']}: ", True)).append(severity, _SEVERITIES[severity])
    return line.append(visible(f": {finding['what']}" + (f"; {hint}" if hint else "")))


def _effects(row: Mapping[str, Any]) -> list[str]:
    counts = [f"{row[name]:,}" for name in ("before", "after", "lost", "lost_correct", "gained")]
    return [*counts, percent(row["f1_before"]), percent(row["f1_after"])]


def _row(scores: Mapping[str, Any]) -> list[str]:
    fractions = [percent(scores[name]) for name in ("precision", "recall", "f1")]
    return [*fractions, f"{scores['support']:,}" if "support" in scores else ""]


def with_place(counts: dict[str, Any], out: Path) -> dict[str, Any]:
    """The counts, with the file of the rejects beside their number."""
    if not counts.get("rejected"):
        return counts
    return {**counts, "rejected": f"{counts['rejected']} ({with_uris(str(out / 'rejects.jsonl'))})"}
