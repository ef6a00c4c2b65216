"""The verb `rayner standardize`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rayner.runtime.console import print_summary

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]

OperatingPoint = Annotated[
    Literal["balanced", "high_precision", "high_recall", "never"] | None,
    typer.Option(help="Where NIL begins; balanced if unset and calibrated. never: no NIL."),
]
MOST_ROWS = 100


def add_standardize(app: typer.Typer, run: Run) -> None:
    """Add the verb; `run` calls it and prints its result, as for every other command."""

    @app.command()
    def standardize(
        checkpoint: Annotated[Path, typer.Argument(exists=True, help="A standardizer, such as RUN/best.")],
        file: Annotated[
            Path,
            typer.Argument(exists=True, dir_okay=False, help="A mention a line; or JSONL, CSV: `mention`."),
        ],
        index: Annotated[Path, typer.Option(exists=True, help="The folder of `rayner index build`.")],
        top_k: Annotated[int, typer.Option(min=1, help="Candidates a mention.")] = 5,
        operating_point: OperatingPoint = None,
        propose: Annotated[
            bool, typer.Option("--propose", help="List candidate new entities among what is NIL instead.")
        ] = False,
        least_similarity: Annotated[
            float, typer.Option(min=0, max=1, help="Among the names of a proposal, on average.")
        ] = 0.5,
        out: Annotated[Path | None, typer.Option(help="A file for the answers, as JSON lines.")] = None,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
        ] = False,
    ) -> None:
        """Link mentions to the entities of an index, or to none (NIL). JSON lines, a table on a terminal."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.standardize import standardize

            return standardize(
                checkpoint,
                index,
                file,
                top_k=top_k,
                operating_point=operating_point,
                proposals=propose,
                least_similarity=least_similarity,
                out=out,
            )

        run(verb, as_json, _show)


def _show(result: dict[str, Any]) -> None:
    rows = next((v for name in ("answers", "proposals") if isinstance(v := result.get(name), list)), None)
    if rows is not None and not sys.stdout.isatty():
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
        return
    console = Console()
    if rows is not None:
        console.print(_proposals_table(rows) if "proposals" in result else _answers_table(rows))
        if len(rows) > MOST_ROWS:
            console.print(f"... and {len(rows) - MOST_ROWS:,} more; --out FILE writes them all")
    print_summary(console, {name: v for name, v in result.items() if not isinstance(v, list)}, [])


def _answers_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table("mention", "entity", "id")
    for name in ("score", "probability"):
        table.add_column(name, justify="right")
    table.add_column("next")
    for row in rows[:MOST_ROWS]:
        others = row["candidates"][row["entity_id"] is not None :]
        entity = Text(row["name"]) if row["entity_id"] is not None else Text(f"NIL: {row['reason']}", "dim")
        table.add_row(
            Text(_short(row["mention"] or f"line {row['line']}")),
            entity,
            Text(row["entity_id"] or ""),
            _number(row["score"]),
            _number(row["probability"]),
            Text(", ".join(found["name"] for found in others[:2])),
        )
    return table


def _proposals_table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table("name", "other names")
    table.add_column("mentions", justify="right")
    table.add_column("nearest entity")
    table.add_column("score", justify="right")
    for row in rows[:MOST_ROWS]:
        near = row["nearest"]
        table.add_row(
            Text(_short(row["name"])),
            Text(", ".join(map(_short, row["aliases"]))),
            f"{row['mentions']:,}",
            Text(near["name"] if near else ""),
            _number(near and near["score"]),
        )
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
