"""Arguments and options that several commands share, each spelled once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rayner.files.uris import check_name, unwritable_scheme, uri_of, without_file_scheme


def given_text(text: str) -> str:
    """A path or a URI, `~` put in where no shell did that; an empty one, as of a variable of the shell that
    is not set, would be the working directory."""
    if not str(text).strip():  # a default value is a path already
        raise typer.BadParameter("an empty path; name a file or a folder.")
    check_name(str(text))
    return os.path.expanduser(text)


def given_path(text: str) -> Path:
    """A file or folder that is there, or a URI: whether anything lies there is seen when it is read."""
    path = Path(without_file_scheme(given_text(text)))
    if uri_of(path) is None and not path.exists():
        raise typer.BadParameter(f"Path {text!r} does not exist.")
    return path


def given_file(text: str) -> Path:
    """As `given_path`, and no folder."""
    path = given_path(text)
    if path.is_dir():
        raise typer.BadParameter(f"{text!r} is a directory.")
    return path


def given_output(text: str) -> Path:
    """A file or folder to write, here or at a URI; one that holds credentials is shown to nobody."""
    path = given_text(text)
    if (scheme := unwritable_scheme(str(path))) is not None:
        raise _unwritable(scheme)
    return Path(path)


def given_place(text: str) -> str:
    """Where to write: a folder, or a URI of any file system that can be written to."""
    place = given_text(text)
    scheme = place.partition("://")[0].lower()
    if scheme in ("http", "https"):
        raise _unwritable(scheme)
    return place


def _unwritable(scheme: str) -> typer.BadParameter:
    return typer.BadParameter(f"{scheme}:// cannot be written to; name a local path, or s3://BUCKET/PATH.")


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"{text!r} is no share: a number between 0 and 1.")
    return value


Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the recipe: --set training.epochs=3; may be repeated.",
    ),
]


def workers_option(unset: str) -> Any:
    """The option `--workers`, whose help says what a command does without it."""
    told = f"Number of Ray workers; 0: this process. If unset, {unset}."
    return typer.Option(min=0, metavar="N", help=told)


Workers = Annotated[int | None, workers_option("0")]
WorkersBySize = Annotated[int | None, workers_option("Ray where the input is large")]
Precision = Annotated[
    Literal["float32", "bfloat16", "float16", "auto"] | None,
    typer.Option(
        help="Of matrix products; auto: the faster one here. If unset, float32 on a CPU, bfloat16 on a GPU."
    ),
]
FixedPrecision = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    typer.Option(help="Of a model's matrix products. If unset, float32 on a CPU, bfloat16 on a GPU."),
]
Redo = Annotated[bool, typer.Option("--fresh", help="Do everything again instead of continuing.")]

Recipe = Annotated[
    Path, typer.Argument(metavar="RECIPE", parser=given_path, help="The YAML file that describes the run.")
]
Checkpoint = Annotated[
    Path,
    typer.Argument(metavar="CHECKPOINT", parser=given_path, help="RUN, RUN/best or a pipeline file."),
]
Standardizer = Annotated[
    Path,
    typer.Argument(
        metavar="CHECKPOINT", parser=given_path, help="RUN, RUN/best or a pipeline file, of a standardizer."
    ),
]
Types = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=given_path,
        help="A YAML list of types to look for, also types not in training; if unset, those of training.",
    ),
]
Support = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        parser=given_path,
        help="Annotated examples whose types are looked for, if CHECKPOINT is a Gaussian pre-training.",
    ),
]
OperatingPoint = Annotated[
    Literal["accuracy", "high_precision", "high_recall", "never"] | None,
    typer.Option(help="Where NIL begins; if unset, accuracy where calibrated. never: no NIL."),
]
NilShare = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        parser=share,
        help="Share of mentions without an entity, 0 to 1; if unset, as the recipe says (0.1).",
    ),
]

Shift = Annotated[
    float | None,
    typer.Option(metavar="X", help="Added to every threshold: below 0 finds more mentions, above 0 fewer."),
]
Overlap = Annotated[
    Literal["flat", "nested"] | None,
    typer.Option(help="Whether mentions may be nested; if unset, as the checkpoint was trained."),
]
LinkedIndex = Annotated[
    Path | None,
    typer.Option(
        "--index",
        metavar="DIR",
        parser=given_path,
        help="The index to link to, if CHECKPOINT is a standardizer.",
    ),
]

CorpusFormatName = Literal[
    "auto",
    "huggingface",
    "parquet",
    "docbin",
    "bioc",
    "ufet",
    "figer",
    "label_studio",
    "prodigy",
    "doccano",
    "gliner",
    "jsonl",
    "brat",
    "livingner",
    "ontonotes_fet",
    "pubtator",
    "coreference",
    "litbank",
    "columns",
    "text",
]
# Spelled here, because importing the readers takes longer than showing the help.
CorpusFormat = Annotated[CorpusFormatName, typer.Option(help="The format of the input; auto detects it.")]
ScoredFormat = Annotated[
    Literal[CorpusFormatName, "mentions", "esappmod", "pairs"],
    typer.Option(help="The format of the corpus; auto detects it."),
]
KnowledgeBaseFormat = Annotated[
    Literal["auto", "parquet", "obo", "esappmod", "jsonl", "ctd", "umls", "biosyn", "columns", "pairs"],
    typer.Option(help="The format of the input; auto detects it."),
]

_HELD_BY = {
    "id_column": "ids",
    "name_column": "names",
    "alias_column": "aliases, separated by |",
    "type_column": "types",
    "description_column": "descriptions",
}
_COLUMNS: dict[str, Any] = {
    name: typer.Option(metavar="COLUMN", help=f"The column of the {what}; if unset, found by its name.")
    for name, what in _HELD_BY.items()
}


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, in place of its parameter `columns`, the options that name those of a base."""

    @wraps(command)
    def called(**values: Any) -> None:
        from rayner.data.knowledge_bases import Columns

        command(columns=Columns(*(values.pop(name) for name in _COLUMNS)), **values)

    kind = Parameter.KEYWORD_ONLY
    options = [
        Parameter(name, kind, default=None, annotation=Annotated[str | None, option])
        for name, option in _COLUMNS.items()
    ]
    own = signature(command, eval_str=True)
    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        parameters += options if parameter.name == "columns" else [parameter.replace(kind=kind)]
    called.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called
