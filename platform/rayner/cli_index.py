"""The verbs of `rayner index`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.text import Text

from rayner.cli_kb import (
    AliasColumn,
    DescriptionColumn,
    Format,
    IdColumn,
    Json,
    NameColumn,
    TypeColumn,
    columns_of,
)
from rayner.runtime.console import percent, print_summary

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]

Index = Annotated[Path, typer.Argument(exists=True, file_okay=False, help="The folder of an index.")]
Files = Annotated[list[Path], typer.Argument(metavar="KB...", exists=True, help="Files of one base.")]
SHOWN = 20


def indexes(run: Run) -> typer.Typer:
    """The group; `run` calls a verb and prints its result, as for every other command."""
    group = typer.Typer(help="Make the entities of a knowledge base findable.")

    @group.command("build")
    def build(
        checkpoint: Annotated[Path, typer.Argument(exists=True, help="A standardizer, such as RUN/best.")],
        files: Files,
        out: Annotated[Path, typer.Option(help="The folder of the index; a new version where it has one.")],
        format: Format = "auto",
        id_column: IdColumn = None,
        name_column: NameColumn = None,
        alias_column: AliasColumn = None,
        type_column: TypeColumn = None,
        description_column: DescriptionColumn = None,
        search: Annotated[
            Literal["auto", "exact", "ivf", "hnsw"] | None,
            typer.Option(help="How vectors are searched; the recipe decides if unset."),
        ] = None,
        max_aliases: Annotated[
            int | None, typer.Option(min=1, help="Refuse a base with an entity of more aliases.")
        ] = None,
        mentions: Annotated[
            list[Path] | None,
            typer.Option(exists=True, help="Mentions with entity ids: more aliases. May be repeated."),
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Encode the names and aliases of a knowledge base."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.indexes import build

            return build(
                checkpoint,
                files,
                out,
                format=format,
                columns=columns_of(id_column, name_column, alias_column, type_column, description_column),
                search=search,
                max_aliases=max_aliases,
                mentions=mentions or (),
            )

        def show(built: dict[str, Any]) -> None:
            check = [f"rayner kb check {' '.join(map(str, files))}"] if built["rejected"] else []
            _show(built, [*check, f"rayner standardize {checkpoint} --index {out} FILE"])

        run(verb, as_json, show)

    @group.command("add")
    def add(
        index: Index,
        files: Files,
        checkpoint: Annotated[
            Path | None, typer.Option(exists=True, help="Where the checkpoint that built it lies by now.")
        ] = None,
        format: Format = "auto",
        id_column: IdColumn = None,
        name_column: NameColumn = None,
        alias_column: AliasColumn = None,
        type_column: TypeColumn = None,
        description_column: DescriptionColumn = None,
        as_json: Json = False,
    ) -> None:
        """Add entities; those that are in it are not encoded again."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.indexes import add

            columns = columns_of(id_column, name_column, alias_column, type_column, description_column)
            return add(index, files, checkpoint=checkpoint, format=format, columns=columns)

        run(verb, as_json, lambda changed: _show(changed, [f"rayner index list {index}"]))

    @group.command("remove")
    def remove(
        index: Index,
        ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of entities.")],
        as_json: Json = False,
    ) -> None:
        """Remove entities."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.indexes import remove

            return remove(index, ids)

        run(verb, as_json, lambda changed: _show(changed, [f"rayner index list {index}"]))

    @group.command("list")
    def list_(
        index: Index,
        limit: Annotated[
            int | None, typer.Option(min=0, help=f"Entities to list; {SHOWN} if unset, all with --json.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Say what an index holds, and what built it."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.indexes import list_index

            return list_index(index, SHOWN if limit is None and not as_json else limit)

        run(verb, as_json, _show_list)

    return group


def _show(facts: dict[str, Any], commands: list[str]) -> None:
    if "recall" in facts:
        facts = facts | {"recall": f"{percent(facts['recall'])} %"}
    print_summary(Console(), facts, commands)


def _show_list(found: dict[str, Any]) -> None:
    console = Console()
    for row in found["listed"]:
        others = f" ({', '.join(row['aliases'])})" if row["aliases"] else ""
        console.print(Text(row["entity_id"], style="bold").append(f"  {row['name']}{others}", "not bold"))
    if (more := found["entities"] - len(found["listed"])) > 0:
        console.print(f"... and {more:,} more; --limit N lists more, --json all\n")
    _show({name: value for name, value in found.items() if name != "listed"}, [])
