"""The commands of `rayner corpus`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayner.cli.corpus_contexts import contexts
from rayner.cli.options import (
    CorpusFormat,
    CorpusFormatName,
    FixedPrecision,
    Json,
    Redo,
    Workers,
    WorkersBySize,
    given_output,
    given_path,
)
from rayner.cli.printing import command, logs_on_stderr, print_result, print_summary, visible, with_percents
from rayner.cli.tables import print_findings, print_metrics, with_place
from rayner.counted import counted
from rayner.errors import InputError
from rayner.files.uris import with_uris

app = typer.Typer(
    help="Convert, check, label, resolve and rank corpora; rows for a context ranker.", no_args_is_help=True
)


@app.command()
def convert(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="INPUT", parser=given_path, help="Files or folders.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            parser=given_output,
            help="The folder for the documents, the rejects and the losses.",
        ),
    ],
    format: Annotated[
        CorpusFormatName,
        typer.Option("--from", "--format", help="The format of the input; auto detects it."),
    ] = "auto",
    to: Annotated[
        Literal["parquet", "jsonl", "iob2", "brat", "pubtator", "bioc", "bioc_json", "docbin"],
        typer.Option(help="The format of the output; docbin is spaCy's and needs the extra spacy."),
    ] = "parquet",
    workers: WorkersBySize = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Convert any format to Parquet or another.

    Rows that cannot be read are listed in rejects.jsonl, and what the new format cannot hold in losses.jsonl.
    """
    with logs_on_stderr():
        from rayner.runtime.corpora.convert import convert

        counts = convert(inputs, out, format, workers, fresh, to)
    following = [] if to == "docbin" else [command("rayner", "corpus", "check", out)]
    print_result(counts, as_json, lambda counts: print_summary(with_place(counts, out), following))


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
    workers: WorkersBySize = None,
    as_json: Json = False,
) -> None:
    """List what is wrong with a corpus, by file and line. Status 1 if there are errors."""
    with logs_on_stderr():
        from rayner.runtime.corpora.check import check
        from rayner.tasks.registry import load_recipe

        if not paths and recipe is None:
            raise InputError("rayner corpus check", "nothing to check", "name files, folders or a --recipe")
        found = check(paths or [], load_recipe(recipe) if recipe else None, workers=workers)
    print_result(found, as_json, print_findings)
    if found["errors"]:
        raise typer.Exit(1)


@app.command()
def label(
    path: Annotated[Path, typer.Argument(metavar="PATH", parser=given_path, help="The corpus to label.")],
    dictionary: Annotated[
        Path, typer.Option(metavar="FILE", parser=given_path, help="TYPE<TAB>name lines, CSV or JSONL.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=given_output, help="The folder for the labelled corpus.")
    ],
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
    workers: WorkersBySize = None,
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
        print_summary(with_place(counts, out), [command("rayner", "corpus", "check", out)])

    print_result(counts, as_json, show)


app.command()(contexts)


@app.command()
def resolve(
    inputs: Annotated[
        list[Path], typer.Argument(metavar="TEXTS", parser=given_path, help="Files or folders.")
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", parser=given_output, help="The folder for the stories and the rejects."),
    ],
    resolver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="At least one of rules, ranking:RUN/best, coreferee, fastcoref and maverick (:MODEL; these "
            "three were never run with weights). Of two or more, only links on which two agree are kept.",
        ),
    ] = None,
    heads: Annotated[
        Literal["auto", "spacy", "rule"],
        typer.Option(help="How head words are found; auto takes spaCy's parser where it is installed."),
    ] = "auto",
    format: CorpusFormat = "auto",
    workers: WorkersBySize = None,
    precision: FixedPrecision = None,
    fresh: Redo = False,
    as_json: Json = False,
) -> None:
    """Find coreference chains in texts: stories for the task `chains`. Texts without any are rejected."""
    with logs_on_stderr():
        from rayner.runtime.corpora.resolve import resolve_texts

        counts = resolve_texts(inputs, out, resolver or [], heads, format, workers, fresh, precision)
    following = [f"a recipe with task: chains and corpus.train: [{out}]"]
    shown = with_place(with_percents(counts, "agreement", "agreement_with_pronouns"), out)
    print_result(counts, as_json, lambda _: print_summary(shown, following))


@app.command()
def rank(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", parser=given_path, help="Corpora or texts, annotated or not."),
    ],
    checkpoint: Annotated[
        Path,
        typer.Option(
            metavar="CHECKPOINT",
            parser=given_path,
            help="A recognizer, a tagger or a Gaussian pre-training, such as RUN/best.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", parser=given_output, help="The folder for the ranking and the rejects."),
    ] = None,
    format: CorpusFormat = "auto",
    workers: Workers = None,
    precision: FixedPrecision = None,
    as_json: Json = False,
) -> None:
    """Order documents by what annotating them would teach: first those that a checkpoint is least sure of."""
    with logs_on_stderr():
        from rayner.runtime.corpora.rank import rank

        result = rank(paths, checkpoint, out, format, workers or 0, precision)

    def show(result: dict[str, Any]) -> None:
        for row in result.pop("first"):
            name = visible(row["document_id"], True)
            print(f"{row['rank']:>4}  {row['score']:8.4f}  {name} ({counted(row['words'], 'word')})")
        if out is not None:
            result = {**with_place(result, out), "ranking": with_uris(str(out / "ranking.jsonl"))}
        print_summary(result)

    print_result(result, as_json, show)
