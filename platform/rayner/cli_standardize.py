"""The verb `rayner standardize`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from rayner.runtime.console import print_summary
from rayner.runtime.console_linking import MOST_ROWS, answers_table, proposals_table

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]

OperatingPoint = Annotated[
    Literal["balanced", "high_precision", "high_recall", "never"] | None,
    typer.Option(help="Where NIL begins; balanced if unset and calibrated. never: no NIL."),
]


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
        ] = 0.4,
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
        console.print(proposals_table(rows) if "proposals" in result else answers_table(rows))
        if len(rows) > MOST_ROWS:
            console.print(f"... and {len(rows) - MOST_ROWS:,} more; --out FILE writes them all")
    print_summary(console, {name: v for name, v in result.items() if not isinstance(v, list)}, [])
