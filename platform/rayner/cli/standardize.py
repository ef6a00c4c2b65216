"""The command `rayner standardize`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rayner.cli.linking_tables import MOST_ROWS, answers_table, proposals_table
from rayner.cli.options import (
    Json,
    NilShare,
    OperatingPoint,
    Precision,
    Standardizer,
    given_file,
    given_output,
    given_path,
)
from rayner.cli.printing import json_line, logs_on_stderr, print_result, print_summary


def standardize(
    checkpoint: Standardizer,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            parser=given_file,
            help="One mention per line; or JSONL or CSV with a field `mention`.",
        ),
    ],
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=given_path,
            help="The folder of `rayner index build`; of a pipeline file, in place of its own.",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Candidates per mention; 5, or what a pipeline file says."),
    ] = None,
    operating_point: OperatingPoint = None,
    nil_share: NilShare = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="List candidate new entities among the NIL mentions instead.")
    ] = False,
    least_similarity: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="X", help="Least mean similarity of the names in one proposal."),
    ] = 0.4,
    precision: Precision = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=given_output, help="A file for the answers, as JSON lines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Link mentions to the entities of an index, or to none (NIL). JSON lines; on a terminal, a table."""
    with logs_on_stderr():
        from rayner.runtime.linking.standardize import standardize

        result = standardize(
            checkpoint,
            index,
            file,
            top_k=top_k,
            operating_point=operating_point,
            nil_share=nil_share,
            proposals=propose,
            least_similarity=least_similarity,
            precision=precision,
            out=out,
        )
    print_result(result, as_json, _show)


def _show(result: dict[str, Any]) -> None:
    rows = next((v for name in ("answers", "proposals") if isinstance(v := result.get(name), list)), None)
    if rows is not None and not sys.stdout.isatty():
        for row in rows:
            print(json_line(row))
        return
    console = Console()
    if rows is not None:
        console.print(proposals_table(rows) if "proposals" in result else answers_table(rows))
        if len(rows) > MOST_ROWS:
            console.print(f"... and {len(rows) - MOST_ROWS:,} more; --out FILE writes them all")
    print_summary({name: v for name, v in result.items() if not isinstance(v, list)})
