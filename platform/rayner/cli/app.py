"""The `rayner` command: its groups and commands, and how it starts and ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.main import get_command

import rayner
from rayner.cli import corpus, index, kb
from rayner.cli.annotate import annotate
from rayner.cli.doctor import doctor
from rayner.cli.evaluate import evaluate
from rayner.cli.predict import predict
from rayner.cli.printing import INTERRUPTED, errors_as_status, fail
from rayner.cli.quickstart import quickstart
from rayner.cli.report import report
from rayner.cli.serve import serve
from rayner.cli.standardize import standardize
from rayner.cli.train import train
from rayner.cli.tune import tune
from rayner.runtime.signals import terminated_as_interrupted

_FROM_HERE = "the same command continues from here"
_BY_PARTS = "the same command keeps the parts of the input that are done, and begins the others anew"
_RESUMED = {
    **{(name,): _FROM_HERE for name in ("train", "tune", "annotate")},
    **{("corpus", name): _BY_PARTS for name in ("convert", "label", "resolve")},
    ("corpus", "contexts"): "the same command keeps the answers that came, and asks for the others alone",
}

app = typer.Typer(
    help="Find, type and link the entities of texts; train every part of that on your own data.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    # Two columns of plain text: boxes and a column of types leave little room for the help itself.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"rayner {rayner.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Options of the command itself."""


for command in (train, tune, evaluate, report, predict, annotate, standardize, serve, quickstart, doctor):
    app.command()(command)
for name, group in (("corpus", corpus.app), ("kb", kb.app), ("index", index.app)):
    app.add_typer(group, name=name)


@cache
def _command() -> Any:
    """The commands as they are parsed: made once, which takes as long as many a command itself."""
    made = get_command(app)
    _hide_types(made)
    return made


def _hide_types(command: Any) -> None:
    """Typer's help shows the Python type of an argument behind its name, also where it has a metavar."""
    for inner in getattr(command, "commands", {}).values():
        _hide_types(inner)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and exit: 0 for success, 2 for what the user can correct, 130 for Ctrl-C or SIGTERM (0 where a
    service was to be stopped so), else 1."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or a file that is not UTF-8 has a letter it lacks as \\xe9, and not a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    # Processes of Ray have handlers of their own.
    terminated_as_interrupted()
    with errors_as_status():
        status = _command()(arguments or ["--help"], prog_name="rayner", standalone_mode=False)
    if status == INTERRUPTED:
        hint = _RESUMED.get(tuple(arguments[:1])) or _RESUMED.get(tuple(arguments[:2]))
        fail("interrupted" + (f"; {hint}" if hint else ""), INTERRUPTED)
    sys.exit(status if isinstance(status, int) else 0)
