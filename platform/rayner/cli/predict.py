"""The command `rayner predict`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rayner.cli.options import (
    Checkpoint,
    LinkedIndex,
    NilShare,
    OperatingPoint,
    Overlap,
    Precision,
    Shift,
    Support,
    Types,
)
from rayner.cli.printed_answers import ShownDocuments, ShownNames
from rayner.cli.printing import json_line, logs_on_stderr, without_collection
from rayner.errors import InputError

if TYPE_CHECKING:
    from rayner.tasks.stages import Pipeline


def predict(
    checkpoint: Checkpoint,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="If none is given, each line of standard input is a text."),
    ] = None,
    types: Types = None,
    shift: Shift = None,
    overlap: Overlap = None,
    index: LinkedIndex = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Candidates of a standardizer, shown below; if unset, its answer alone."
        ),
    ] = None,
    operating_point: OperatingPoint = None,
    nil_share: NilShare = None,
    support: Support = None,
    precision: Precision = None,
    scores: Annotated[bool, typer.Option("--scores", help="Show scores.")] = False,
    contexts: Annotated[
        bool, typer.Option("--contexts", help="Show below a text the contexts chosen for its sentences.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a JSON object a text, and one of counts as the last line."),
    ] = False,
) -> None:
    """Mark the mentions of texts, as [mention](TYPE: fine types = entity); on a terminal, in colour.

    A standardizer names the entity of each text.
    """
    started, output = time.perf_counter(), sys.stdout
    with logs_on_stderr():
        with without_collection():
            from rayner.config.recipe_files import load_types
            from rayner.tasks.stage_settings import without_mentions
            from rayner.tasks.stages import read_pipeline

        _check(texts or (), checkpoint)
        options = {"types": load_types(types) if types else None, "shift": shift, "overlap": overlap}
        options |= {"index": index, "top_k": top_k, "operating_point": operating_point}
        options |= {"nil_share": nil_share, "support": support}
        settings = read_pipeline(checkpoint, options, precision)
        is_standardizer = not settings.is_file and settings.stages[0].record.stage == "entities"
        if not is_standardizer and not settings.finds_mentions:
            raise InputError(str(checkpoint), *without_mentions(settings.stages, settings.is_file))
        with without_collection():
            pipeline = settings.pipeline()
        if is_standardizer:
            shown: Any = ShownNames(output, scores, candidates=bool(top_k))
        else:
            shown = ShownDocuments(output, pipeline, scores, contexts)
        for answer in _answers(pipeline, texts):
            if as_json:
                print(json_line(shown.row(answer), output), file=output)
            else:
                shown.show(answer)
        if as_json:
            about = {
                "model_version": pipeline.settings.version,
                "new_types": pipeline.new_types,
                "seconds": round(time.perf_counter() - started, 3),
            }
            print(json_line({**shown.counts, **about}, output), file=output, flush=True)


def _answers(pipeline: Pipeline, texts: Sequence[str] | None) -> Iterator[Any]:
    if texts:
        yield from pipeline.answers(texts)
    elif sys.stdin.isatty():
        print("one text a line; Ctrl-D ends", file=sys.stderr)
        for text in _lines():
            yield from pipeline.answers([text])
    else:
        wrong: list[InputError] = []
        yield from pipeline.answers(_until_wrong(_lines(), wrong))
        if wrong:
            raise wrong[0]


def _check(texts: Sequence[str], checkpoint: Any) -> None:
    if not texts and sys.stdin is None:
        raise InputError("standard input", "is closed", "give a TEXT, or texts on standard input")
    for number, text in enumerate(texts, 1):
        if os.path.isfile(text):
            paths = shlex.quote(str(checkpoint)), shlex.quote(text)
            hint = "rayner predict {0} < {1}, or rayner annotate {0} {1} --out DIR".format(*paths)
            raise InputError(f"TEXT {number}", f"{text} is a file, and a text is wanted", hint)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"TEXT {number}", "not UTF-8", "give it in UTF-8") from None


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            where, what = f"standard input:{number}", f"not UTF-8 (byte {error.start + 1})"
            raise InputError(where, what, "convert it to UTF-8, as with iconv") from None


def _until_wrong(lines: Iterator[str], wrong: list[InputError]) -> Iterator[str]:
    """The lines before one that cannot be read, which are answered first; its error goes to `wrong`."""
    try:
        yield from lines
    except InputError as error:
        wrong.append(error)
