"""The command `rayner quickstart`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rayner.cli.linking_tables import linking_table
from rayner.cli.marked import colours_of, label_of, marked_text
from rayner.cli.options import Json, Overrides, given_output
from rayner.cli.printing import logs_on_stderr, print_result, print_summary
from rayner.cli.tables import scores_table


def quickstart(
    overrides: Overrides = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=given_output, help="The folder for the run.")
    ] = Path("runs/quickstart"),
    as_json: Json = False,
) -> None:
    """Train, score and link on the example data. Takes a few minutes."""
    with logs_on_stderr():
        from rayner.runtime.quickstart import quickstart

        result = quickstart(out, overrides or [])
    print_result(result, as_json, show)


def show(result: Mapping[str, Any]) -> None:
    """Print the scores, the sentences with their mentions in colour, and what to run next."""
    from rayner.data.schema import Document, Mention

    console = Console()
    console.print(scores_table(result["metrics"], "Mentions of the example corpus, test part"))
    console.print(linking_table(result["linking"], "Their entities in the example knowledge base"))
    colours = colours_of(result["metrics"]["per_type"])
    for row in result["documents"]:
        mentions = tuple(Mention(m["start"], m["end"], m["type"], m["entity_id"]) for m in row["mentions"])
        names = {m["entity_id"]: m["entity"] for m in row["mentions"] if m["entity"]}
        marked = marked_text(Document("", row["text"], mentions), colours, partial(label_of, names=names))
        console.print(marked, soft_wrap=True)
    console.print()
    checkpoint, standardizer, index, pipeline = (
        Path(os.path.relpath(result[name])) for name in ("checkpoint", "standardizer", "index", "pipeline")
    )
    facts = {
        "checkpoint": checkpoint,
        "standardizer": standardizer,
        "index": index,
        "pipeline": pipeline,
        "seconds": result["seconds"],
    }
    report = shlex.join(["rayner", "report", str(checkpoint.parent)])
    mine = f"rayner annotate {pipeline} YOUR_TEXTS --out annotated"
    print_summary(facts, [report, mine, "rayner corpus convert YOUR_FILES --out YOUR_CORPUS"])
