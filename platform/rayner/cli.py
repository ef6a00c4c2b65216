"""The `rayner` command. Every verb calls one function of the runtime and prints what it returns."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from rayner.cli_annotate import add_annotate
from rayner.cli_index import indexes
from rayner.cli_kb import knowledge_bases
from rayner.cli_serve import add_serve
from rayner.cli_standardize import OperatingPoint, add_standardize
from rayner.cli_tune import add_tune
from rayner.errors import InputError, RaynerError
from rayner.runtime.console import print_findings, print_metrics, print_summary, print_training
from rayner.runtime.run_folder import run_folder

app = typer.Typer(
    help="Find, type and link the entities of texts; train every part of that on your own data.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
corpus = typer.Typer(help="Convert, check and label corpora.")
app.add_typer(corpus, name="corpus")

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
]
Workers = Annotated[
    int | None, typer.Option(min=0, help="Ray workers; the recipe or the machine decides if unset.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key: --set training.epochs=3"),
]
Case = Literal["exact", "ignore", "acronyms"]
Ambiguity = Literal["drop", "first", "both"]
Show = Callable[[Any], None]

_INTERRUPTED = 130
"""The status that shells give to what Ctrl-C ended, and typer too."""
_RESUMED = ("train", "tune", "annotate")

_MENDABLE = frozenset(
    {
        *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG),
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),
    }
)
"""What is wrong with a place or a disk, not with rayner."""


@corpus.command("convert")
def corpus_convert(
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT...", exists=True, help="Files or folders.")],
    out: Annotated[Path, typer.Option(help="The folder for the Parquet files and the rejects.")],
    format: Annotated[str, typer.Option(help="The format of the input; auto detects it.")] = "auto",
    workers: Workers = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do everything again instead of going on.")] = False,
    as_json: Json = False,
) -> None:
    """Convert any format to Parquet. Rows that cannot be read land in a rejects file."""

    def run() -> dict[str, Any]:
        from rayner.runtime.corpora import convert

        return convert(inputs, out, format, workers, fresh)

    _run(run, as_json, lambda counts: print_summary(Console(), counts, [f"rayner corpus check {out}"]))


@corpus.command("check")
def corpus_check(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="[PATH...]", exists=True, help="Files or folders.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(exists=True, help="Check its corpus too, and all against its types and windows."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a corpus, by file and line; status 1 if there are errors."""

    def run() -> dict[str, Any]:
        from rayner.runtime.corpora import check
        from rayner.tasks.registry import load_recipe

        if not paths and recipe is None:
            raise InputError("rayner corpus check", "nothing to check", "name files, folders or a --recipe")
        return check(paths or [], load_recipe(recipe) if recipe else None)

    _run(run, as_json, print_findings)


@corpus.command("label")
def corpus_label(
    path: Annotated[Path, typer.Argument(exists=True, help="The corpus to label.")],
    dictionary: Annotated[Path, typer.Option(exists=True, help="TYPE<TAB>name lines, CSV or JSONL.")],
    out: Annotated[Path, typer.Option(help="The folder for the labelled corpus.")],
    default_type: Annotated[str | None, typer.Option(help="The type of names without one.")] = None,
    phrases: Annotated[Path | None, typer.Option(exists=True, help="Names to find but not to label.")] = None,
    case: Annotated[Case, typer.Option(help="Which differences of case do not matter.")] = "acronyms",
    ambiguity: Annotated[Ambiguity, typer.Option(help="What becomes of a name of two types.")] = "drop",
    workers: Workers = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do everything again instead of going on.")] = False,
    as_json: Json = False,
) -> None:
    """Label a corpus with a dictionary, in place of its own mentions; where it has some, score the labels."""

    def run() -> dict[str, Any]:
        from rayner.config import LabelSettings
        from rayner.runtime.corpora import label

        settings = LabelSettings(case=case, ambiguity=ambiguity)
        return label(path, dictionary, out, settings, default_type, phrases, workers, fresh)

    def show(counts: dict[str, Any]) -> None:
        if "per_type" in counts:
            print_metrics(counts, "Labels against the corpus's own mentions")
        print_summary(Console(), counts, [f"rayner corpus check {out}"])

    _run(run, as_json, show)


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(exists=True, help="The YAML file that describes the run.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key: --set training.epochs=3"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/RECIPE if unset.")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over instead of resuming the run in --out.")
    ] = False,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Train what a recipe describes; resume the run in --out if there is one."""
    folder = out or run_folder(recipe.stem)

    def run() -> dict[str, Any]:
        from rayner.runtime.train import train
        from rayner.tasks.registry import load_recipe

        return train(load_recipe(recipe, overrides or []), folder, fresh=fresh, workers=workers)

    def show(result: dict[str, Any]) -> None:
        from rayner.tasks.card import commands_for
        from rayner.tasks.registry import load_recipe, task_of

        read = load_recipe(recipe, overrides or [])
        commands = commands_for(task_of(read).kind.card(read), str(result["checkpoint"]))
        print_training(result, [f"rayner report {folder}", *commands])

    _run(run, as_json, show)


@app.command()
def evaluate(
    checkpoint: Annotated[Path, typer.Argument(exists=True, help="A checkpoint folder, such as RUN/best.")],
    corpus: Annotated[Path, typer.Argument(exists=True, help="A corpus with gold mentions.")],
    format: Annotated[str, typer.Option(help="The format of the corpus; auto detects it.")] = "auto",
    types: Annotated[
        Path | None,
        typer.Option(exists=True, help="A YAML list of types to look for, also ones never learned."),
    ] = None,
    index: Annotated[Path | None, typer.Option(exists=True, help="Of a standardizer: its index.")] = None,
    operating_point: OperatingPoint = None,
    as_json: Json = False,
) -> None:
    """Score a checkpoint on a corpus, per type too; a standardizer on mentions with entity ids."""

    def run() -> dict[str, Any]:
        from rayner.config.reading import load_types
        from rayner.runtime.evaluate import evaluate

        wanted = None if types is None else load_types(types)
        options = {"types": wanted, "index": index, "operating_point": operating_point}
        return evaluate(checkpoint, corpus, format=format, options=options)

    _run(run, as_json, lambda metrics: print_metrics(metrics, f"{checkpoint} on {corpus}"))


@app.command()
def report(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", exists=True, help="The folder of a run.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file; inside the run's folder if unset.")] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page: curves, scores per type, errors with examples."""

    def run() -> dict[str, Any]:
        from rayner.runtime.report import report

        return {"report": str(report(run_folder, out))}

    _run(run, as_json, lambda result: print_summary(Console(), result, []))


@app.command()
def quickstart(
    overrides: Overrides = None,
    out: Annotated[Path, typer.Option(help="The folder for the run.")] = Path("runs/quickstart"),
    as_json: Json = False,
) -> None:
    """Train on the example corpus and knowledge base, score, and link new sentences. Takes a few minutes."""

    def run() -> dict[str, Any]:
        from rayner.runtime.quickstart import quickstart

        return quickstart(out, overrides or [])

    def show(result: dict[str, Any]) -> None:
        from rayner.runtime.quickstart import show

        show(result)

    _run(run, as_json, show)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and exit: 0 for success, 2 for what the user can mend, 130 for Ctrl-C, 1 for anything else."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = app(arguments or ["--help"], prog_name="rayner", standalone_mode=False)
    except typer.TyperException as error:
        _fail(f"{_command_of(error)}: {error.format_message()}", error.exit_code)
    except RaynerError as error:
        # Ray wraps what a task raises; its own text holds the worker's traceback.
        _fail(str(getattr(error, "cause", None) or error), error.exit_status)
    except OSError as error:
        if error.errno not in _MENDABLE:
            raise
        what = error.strerror or str(error)
        _fail(f"{error.filename or 'the output'}: {what}; name a place that can be written to", 2)
    except typer.Abort:
        _fail("interrupted", 1)
    if status == _INTERRUPTED:
        cure = "; the same command goes on from here" if arguments[0] in _RESUMED else ""
        _fail(f"interrupted{cure}", _INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(status)


def _command_of(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else "rayner"


def _run(verb: Callable[[], Any], as_json: bool, show: Show) -> None:
    """Call the verb with its prints and logs on standard error, then print its result.

    A check that found errors ends with status 1, so that a script stops there.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("rayner").setLevel(logging.INFO)
    with contextlib.redirect_stdout(sys.stderr):
        result = verb()
    if as_json:
        print(json.dumps(_plain(result), ensure_ascii=False), flush=True)
    else:
        show(result)
    if isinstance(result, Mapping) and "findings" in result and result.get("errors"):
        raise typer.Exit(1)


def _plain(value: Any) -> Any:
    """The value in JSON's types; numbers that JSON lacks become null."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


app.add_typer(knowledge_bases(_run), name="kb")
app.add_typer(indexes(_run), name="index")
add_serve(app, _run)
add_annotate(app, _run)
add_tune(app, _run)
add_standardize(app, _run)

if __name__ == "__main__":
    main()
