"""docs/results.md from the files of docs/results: headline figures on top, then a table a file.

python -m benchmarks.results_page            # writes docs/results.md
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.command import call_main
from benchmarks.figures import (
    NOT_RECORDED,
    RESULTS,
    ROOT,
    Figure,
    Hardware,
    Number,
    Result,
    Row,
    read_results,
)

PAGE = RESULTS.with_suffix(".md")
EXPERIMENTS = ROOT / "docs" / "experiments"
INTRODUCTION = """\
# Results

Made by `python -m benchmarks.results_page` from the files of [results](results), which the benchmarks
write: do not edit this page. Scores are of the development parts of public corpora unless a figure says
otherwise, with the embedded encoder (all-MiniLM-L6-v2). "papers/000" and so on are the
[papers](papers.md). `RAYNER_DATA` names the folder of the corpora. Above the table of each figure is its
whole command. A training that was cut off goes on when the command is given again."""


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, "\n".join(_headlines(results))]
    for section, found in groupby(results, key=lambda result: result.section):
        parts.append(f"## {section}")
        discussed = section.lower().replace(" ", "_") + ".md"
        if (EXPERIMENTS / discussed).exists():
            parts.append(f"What these figures say: [experiments/{discussed}](experiments/{discussed}).")
        parts += [_part(result) for result in found]
    return "\n\n".join(parts) + "\n"


def _headlines(results: Sequence[Result]) -> list[str]:
    cells = []
    for result in results:
        keys = dict.fromkeys(key for row in result.rows for key in row if _is_headline(row, key))
        if keys:
            what = f"[{result.title}](#{anchor_of(result.title)})"
            told = (_machine(result.hardware), result.commit, f"`{_module(result.command)}`")
            cells.append((result.task, what, "; ".join(_headline(result.rows, key) for key in keys), *told))
    return lines_of(("task", "what", "figures", "hardware", "commit", "command"), cells)


def _module(command: str) -> str:
    """What a command runs; the whole of it is told with its table."""
    return command.split()[2]


def _is_headline(row: Row, key: str) -> bool:
    figure = row.get(key)
    return isinstance(figure, Figure) and figure.headline


def _headline(rows: Sequence[Row], key: str) -> str:
    """The headline figures of a column, each with what tells its row from the others."""
    chosen = [row for row in rows if _is_headline(row, key)]
    figures = [figure for row in chosen if isinstance(figure := row[key], Figure)]
    plain = {k for row in chosen for k, cell in row.items() if not isinstance(cell, Figure)}
    varied = [k for k in chosen[0] if k in plain and len({str(row.get(k)) for row in chosen}) > 1]
    # Words tell more than counts of seeds or rounds, which are told where words alone do not tell rows apart.
    labels = [k for k in varied if isinstance(chosen[0][k], str)]
    for number in (k for k in varied if k not in labels):
        if len({tuple(row[k] for k in labels) for row in chosen}) == len(chosen):
            break
        labels.append(number)
    shown = [
        " ".join((*(_told(k, row[k]) for k in labels), _value(figure, _digits(figures), with_unit=False)))
        for row, figure in zip(chosen, figures, strict=True)
    ]
    return f"{_head(key, figures[0].unit)}: {', '.join(shown)}"


def _told(key: str, label: Figure | float | str) -> str:
    return label if isinstance(label, str) else f"{key.replace('_', ' ')} {label}:"


def _head(key: str, unit: str) -> str:
    """The name of a column."""
    if unit in ("", "ratio"):
        return key.replace("_", " ")
    return f"{re.sub(r'_(mb|ms|seconds|per_second)$', '', key).replace('_', ' ')} ({unit})"


def _part(result: Result) -> str:
    told = [result.date, f"commit {result.commit}", _machine(result.hardware), result.precision]
    if result.seeds:
        told.append(f"seeds {', '.join(map(str, result.seeds))}")
    parts = [f"### {result.title}", f"    {result.command}", result.conditions]
    if result.uncertainty:
        parts.append(result.uncertainty)
    parts += table(result.rows)
    parts += result.notes
    parts.append(f"[{result.name}.json](results/{result.name}.json): {'; '.join(told)}.")
    return "\n\n".join(parts)


def table(rows: Iterable[Row]) -> list[str]:
    """Tables in Markdown; a new one begins where the columns change."""
    return ["\n".join(_table(list(alike))) for _, alike in groupby(rows, key=lambda row: tuple(row))]


def _table(rows: Sequence[Row]) -> list[str]:
    columns: dict[str, list[str]] = {}
    measured = set()
    for key in rows[0]:
        cells = [row[key] for row in rows]
        figures = [cell for cell in cells if isinstance(cell, Figure)]
        one_unit = len({figure.unit for figure in figures}) == 1
        unit = figures[0].unit if one_unit else ""
        digits = _digits(figures)
        shown = [_value(c, digits, not one_unit) if isinstance(c, Figure) else _label(c) for c in cells]
        columns[_head(key, unit)] = shown
        measured |= {_head(key, unit)} if figures else set()
    return lines_of(list(columns), zip(*columns.values(), strict=True), measured)


def _digits(figures: Sequence[Figure]) -> int:
    """Behind the point: what the value with the most has."""
    values = [part for f in figures for part in (f.value if isinstance(f.value, tuple) else (f.value,))]
    return max((len(repr(v).partition(".")[2]) for v in values if isinstance(v, float)), default=0)


def shown_value(figure: Figure) -> str:
    """A figure by itself, with its unit."""
    return _value(figure, _digits([figure]), with_unit=figure.unit != "ratio")


def _value(figure: Figure, digits: int, with_unit: bool) -> str:
    def shown(value: Number) -> str:
        # A whole number was told as one.
        return f"{value:,.{digits if isinstance(value, float) else 0}f}"

    text = ", ".join(map(shown, figure.value)) if isinstance(figure.value, tuple) else shown(figure.value)
    text += f" ± {shown(figure.deviation)}" if figure.deviation is not None else ""
    text += f" {figure.unit}" if with_unit and figure.unit else ""
    return text + (f" ({' to '.join(map(shown, figure.interval))})" if figure.interval else "")


def _label(value: str | int | float) -> str:
    if isinstance(value, str):
        return value.replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _machine(hardware: Hardware) -> str:
    told = [hardware.cpu]
    told += [f"{hardware.cores} cores"] if hardware.cores else []
    told += [f"{hardware.threads} thread{'s' * (hardware.threads > 1)}"] if hardware.threads else []
    told += [hardware.gpu] if hardware.gpu else []
    told += [f"load {hardware.load:g}"] if hardware.load is not None else []
    return ("hardware " if hardware.cpu == NOT_RECORDED else "") + ", ".join(told)


def anchor_of(title: str) -> str:
    """As GitHub makes it from a heading."""
    kept = (c for c in title.lower() if c.isalnum() or c in " -_")
    return "".join(kept).replace(" ", "-")


def lines_of(
    names: Sequence[str], cells: Iterable[Sequence[str]], measured: Collection[str] = ()
) -> list[str]:
    """A table in Markdown, `measured` columns to the right."""
    rule = " | ".join("---:" if name in measured else "---" for name in names)
    return [f"| {' | '.join(names)} |", f"| {rule} |", *(f"| {' | '.join(row)} |" for row in cells)]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="docs/results if unset")
    parser.add_argument("--out", type=Path, default=PAGE, help="docs/results.md if unset")
    options = parser.parse_args()
    options.out.write_text(page(read_results(options.results)), encoding="utf-8")


if __name__ == "__main__":
    call_main(main)
