"""The commands of `rayner index`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from rayner.cli.options import (
    Json,
    KnowledgeBaseFormat,
    Standardizer,
    Workers,
    given_output,
    given_path,
    with_columns,
)
from rayner.cli.printing import command, logs_on_stderr, percent, print_result, print_summary, visible

SHOWN = 20

Index = Annotated[Path, typer.Argument(metavar="INDEX", parser=given_path, help="The folder of an index.")]
Files = Annotated[
    list[Path], typer.Argument(metavar="KB", parser=given_path, help="Files of one knowledge base.")
]

app = typer.Typer(help="Make the entities of a knowledge base searchable.", no_args_is_help=True)


@app.command("build")
@with_columns
def build(
    checkpoint: Standardizer,
    files: Files,
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            parser=given_output,
            help="The folder of the index, or its URI; an index in it gets a new version.",
        ),
    ],
    format: KnowledgeBaseFormat = "auto",
    columns: Any = None,
    search: Annotated[
        Literal["auto", "exact", "ivf", "hnsw"] | None,
        typer.Option(help="How vectors are searched; if unset, the recipe decides."),
    ] = None,
    max_aliases: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Refuse an entity with more aliases, those of --mentions among them."
        ),
    ] = None,
    mentions: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            parser=given_path,
            help="Mentions with entity ids, added as aliases; may be repeated.",
        ),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Encode the names and aliases of a knowledge base."""
    with logs_on_stderr():
        from rayner.runtime.linking.indexes import build

        result = build(
            checkpoint,
            files,
            out,
            format=format,
            columns=columns,
            search=search,
            max_aliases=max_aliases,
            mentions=mentions or (),
            workers=workers or 0,
        )

    def show(built: dict[str, Any]) -> None:
        from rayner.tasks.kinds.mentions import reading_options

        check = command("rayner", "kb", "check", *files, *reading_options(format, columns))
        _show(
            built,
            [
                *([check] if built["rejected"] else []),
                command("rayner", "standardize", checkpoint, "--index", out, "FILE"),
            ],
        )

    print_result(result, as_json, show)


@app.command("add")
@with_columns
def add(
    index: Index,
    files: Files,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT", parser=given_path, help="The checkpoint that built it, if it was moved."
        ),
    ] = None,
    format: KnowledgeBaseFormat = "auto",
    columns: Any = None,
    as_json: Json = False,
) -> None:
    """Add entities. Names that are in the index already are not encoded again."""
    with logs_on_stderr():
        from rayner.runtime.linking.indexes import add
        from rayner.tasks.kinds.mentions import reading_options

        result = add(index, files, checkpoint=checkpoint, format=format, columns=columns)

    def show(changed: dict[str, Any]) -> None:
        check = command("rayner", "kb", "check", *files, *reading_options(format, columns))
        shown = [check] if changed["rejected"] else []
        _show(changed, [*shown, command("rayner", "index", "list", index)])

    print_result(result, as_json, show)


@app.command("remove")
def remove(
    index: Index,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of entities.")],
    as_json: Json = False,
) -> None:
    """Remove entities."""
    with logs_on_stderr():
        from rayner.runtime.linking.indexes import remove

        result = remove(index, ids)
    print_result(result, as_json, lambda changed: _show(changed, [command("rayner", "index", "list", index)]))


@app.command("list")
def list_(
    index: Index,
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help=f"Entities to list; if unset, {SHOWN}, or all with --json."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what an index holds, and what built it."""
    with logs_on_stderr():
        from rayner.runtime.linking.indexes import list_index

        result = list_index(index, SHOWN if limit is None and not as_json else limit)
    print_result(result, as_json, _show_list)


def _show(facts: dict[str, Any], commands: list[str]) -> None:
    if "recall" in facts:
        facts = facts | {"recall": f"{percent(facts['recall'])} %"}
    print_summary(facts, commands)


def _show_list(found: dict[str, Any]) -> None:
    console = Console()
    for row in found["listed"]:
        others = f" ({', '.join(row['aliases'])})" if row["aliases"] else ""
        line = Text(visible(row["entity_id"], True), style="bold")
        line.append(visible(f"  {row['name']}{others}", True), "not bold")
        console.print(line, soft_wrap=True)
    if (more := found["entities"] - len(found["listed"])) > 0:
        console.print(f"... and {more:,} more; --limit N lists more, --json all\n")
    _show({name: value for name, value in found.items() if name != "listed"}, [])
