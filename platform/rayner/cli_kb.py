"""The verbs of `rayner kb`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rayner.runtime.console import print_findings, print_summary

if TYPE_CHECKING:
    from rayner.data.knowledge_bases import Columns

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]

Inputs = Annotated[list[Path], typer.Argument(metavar="INPUT...", exists=True, help="Files of one base.")]
Format = Annotated[str, typer.Option(help="The format of the input; auto detects it.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
]
IdColumn = Annotated[str | None, typer.Option(help="The column of the ids.")]
NameColumn = Annotated[str | None, typer.Option(help="The column of the names.")]
AliasColumn = Annotated[str | None, typer.Option(help="The column of the aliases, parted by |.")]
TypeColumn = Annotated[str | None, typer.Option(help="The column of the types.")]
DescriptionColumn = Annotated[str | None, typer.Option(help="The column of the descriptions.")]


def knowledge_bases(run: Run) -> typer.Typer:
    """The group; `run` calls a verb and prints its result, as for every other command."""
    group = typer.Typer(help="Convert and check knowledge bases.")

    @group.command("convert")
    def convert(
        inputs: Inputs,
        out: Annotated[Path, typer.Option(help="The file to write: .parquet or .jsonl.")],
        format: Format = "auto",
        id_column: IdColumn = None,
        name_column: NameColumn = None,
        alias_column: AliasColumn = None,
        type_column: TypeColumn = None,
        description_column: DescriptionColumn = None,
        max_aliases: Annotated[
            int | None, typer.Option(min=0, help="Refuse a base with an entity of more aliases.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        """Convert any format to Parquet or JSON lines. What cannot be read lands in OUT.rejects.jsonl."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.knowledge_bases import convert

            named = columns_of(id_column, name_column, alias_column, type_column, description_column)
            return convert(inputs, out, format, named, max_aliases)

        run(verb, as_json, lambda counts: _show(counts, [f"rayner kb check {out}"]))

    @group.command("check")
    def check(
        inputs: Inputs,
        format: Format = "auto",
        id_column: IdColumn = None,
        name_column: NameColumn = None,
        alias_column: AliasColumn = None,
        type_column: TypeColumn = None,
        description_column: DescriptionColumn = None,
        as_json: Json = False,
    ) -> None:
        """Say what is wrong with a knowledge base, by file and line; status 1 if there are errors."""

        def verb() -> dict[str, Any]:
            from rayner.runtime.knowledge_bases import check

            named = columns_of(id_column, name_column, alias_column, type_column, description_column)
            return check(inputs, format, named)

        run(verb, as_json, lambda found: print_findings(_flat(found)))

    return group


def columns_of(*names: str | None) -> Columns:
    """The named columns; the heavy import waits for a command that runs."""
    from rayner.data.knowledge_bases import Columns

    return Columns(*names)


def _show(counts: dict[str, Any], commands: list[str]) -> None:
    print_summary(Console(), _flat(counts), commands)


def _flat(counts: dict[str, Any]) -> dict[str, Any]:
    """With the reasons of what was mended and of what was ignored in the place of their sums."""
    rest = {name: value for name, value in counts.items() if name != "reasons"}
    return rest | {name: reasons or 0 for name, reasons in counts["reasons"].items()}
