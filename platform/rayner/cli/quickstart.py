"""The command `rayner quickstart`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from rayner.cli.linking_tables import linking_table
from rayner.cli.marked import colours_of, label_of, marked_text
from rayner.cli.options import Json, given_output
from rayner.cli.printing import command, json_line, logs_on_stderr, print_result, print_summary
from rayner.cli.tables import numbers_table, scores_table

_OF_AN_ANSWER = ("start", "end", "text", "type", "types", "entity_id", "name", "probability")


def quickstart(
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key that its three recipes have: --set training.epochs=3; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=given_output, help="The folder for the run.")
    ] = Path("runs/quickstart"),
    serve: Annotated[
        bool, typer.Option("--serve", help="Leave the page and the HTTP API running until Ctrl-C.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train, score, index, annotate and serve on the example data. Takes a few minutes."""
    with ExitStack() as running:
        with logs_on_stderr(keep_ray=serve):
            from rayner.serving.quickstart import quickstart, wait_until_stopped

            result = running.enter_context(quickstart(out, overrides or []))
            if not serve:
                running.close()
        print_result(result, as_json, show)
        if serve:
            with logs_on_stderr():
                logging.getLogger(__name__).info(
                    "the page: %s; stop with Ctrl-C", result["served"]["address"]
                )
                wait_until_stopped()
                running.close()


def show(result: Mapping[str, Any]) -> None:
    """Print the scores, the sentences with their mentions in colour, one request with its answer, and what to
    run next."""
    from rayner.data.schema import Document, Mention
    from rayner.runtime.quickstart.quickstart import LINKED

    console = Console()
    console.print(scores_table(result["metrics"], "Mentions of the example corpus, test part"))
    console.print(numbers_table(_typing(result["typing"]), "Fine types of its linked mentions"))
    console.print(linking_table(result["linking"], "Their entities in the example knowledge base"))
    colours = colours_of(result["metrics"]["per_type"])
    for row in result["documents"]:
        mentions = tuple(
            Mention(m["start"], m["end"], m["type"], m["entity_id"], types=tuple(m["types"]), name=m["name"])
            for m in row["mentions"]
        )

        def label(mention: Mention) -> str:
            return label_of(mention, mention.type in LINKED)

        console.print(marked_text(Document("", row["text"], mentions), colours, label), soft_wrap=True)
    console.print()
    served = result["served"]
    console.print(Text(served["request"], "bold"), soft_wrap=True)
    for mention in served["answer"]["documents"][0]["mentions"]:
        shown = {name: mention[name] for name in _OF_AN_ANSWER}
        console.print(Text(json_line(shown)), soft_wrap=True)
    console.print()
    paths = {
        name: Path(os.path.relpath(result[name]))
        for name in ("checkpoint", "typer", "standardizer", "index", "pipeline")
    }
    pipeline = paths["pipeline"]
    annotated = {name: result["annotated"][name] for name in ("documents", "mentions", "linked")}
    facts = {**paths, "annotated": annotated, "seconds": result["seconds"]}
    report = command("rayner", "report", paths["checkpoint"].parent)
    mine = command("rayner", "annotate", pipeline, "YOUR_TEXTS", "--out", "annotated")
    print_summary(facts, [report, mine, "rayner corpus convert YOUR_FILES --out YOUR_CORPUS"])


def _typing(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: metrics[name] for name in ("accuracy", "macro_f1")}, "mentions": metrics["support"]}
