"""The commands of `rayner corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayner.cli.options import CorpusFormat, Json, Redo, Workers, given_path
from rayner.cli.output import logs_on_stderr, print_result, print_summary
from rayner.cli.tables import print_findings, print_metrics
from rayner.errors import InputError

app = typer.Typer(help="Convert, check and label corpora.", no_args_is_help=True)


@app.command()
def convert(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="INPUT", parser=given_path, help="Files or folders.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for the Parquet files and the rejects.")
    ],
    format: CorpusFormat = "auto",
    workers: Workers = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Convert any format to Parquet. Rows that cannot be read are written to a rejects file."""
    with logs_on_stderr():
        from rayner.runtime.corpora.convert import convert

        counts = convert(inputs, out, format, workers, fresh)
    print_result(counts, as_json, lambda counts: print_summary(counts, [f"rayner corpus check {out}"]))


@app.command()
def check(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", parser=given_path, help="Files or folders.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="RECIPE",
            parser=given_path,
            help="Check the corpus of a recipe too, and all against its types and windows.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List what is wrong with a corpus, by file and line. Status 1 if there are errors."""
    with logs_on_stderr():
        from rayner.runtime.corpora.convert import check
        from rayner.tasks.registry import load_recipe

        if not paths and recipe is None:
            raise InputError("rayner corpus check", "nothing to check", "name files, folders or a --recipe")
        found = check(paths or [], load_recipe(recipe) if recipe else None)
    print_result(found, as_json, print_findings)
    if found["errors"]:
        raise typer.Exit(1)


@app.command()
def label(
    path: Annotated[Path, typer.Argument(metavar="PATH", parser=given_path, help="The corpus to label.")],
    dictionary: Annotated[
        Path, typer.Option(metavar="FILE", parser=given_path, help="TYPE<TAB>name lines, CSV or JSONL.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the labelled corpus.")],
    default_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The type of names without one.")
    ] = None,
    phrases: Annotated[
        Path | None, typer.Option(metavar="FILE", parser=given_path, help="Names to find but not to label.")
    ] = None,
    case: Annotated[
        Literal["exact", "ignore", "acronyms"], typer.Option(help="Which differences of case do not matter.")
    ] = "acronyms",
    ambiguity: Annotated[
        Literal["drop", "first", "both"], typer.Option(help="What to do with a name that has two types.")
    ] = "drop",
    workers: Workers = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Label a corpus with a dictionary. Mentions that it has are replaced, and the labels scored on them."""
    with logs_on_stderr():
        from rayner.config import LabelSettings
        from rayner.runtime.corpora.convert import label

        settings = LabelSettings(case=case, ambiguity=ambiguity)
        counts = label(path, dictionary, out, settings, default_type, phrases, workers, fresh)

    def show(counts: dict[str, Any]) -> None:
        if "per_type" in counts:
            print_metrics(counts, "Labels against the corpus's own mentions")
        print_summary(counts, [f"rayner corpus check {out}"])

    print_result(counts, as_json, show)
