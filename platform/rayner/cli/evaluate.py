"""The command `rayner evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayner.cli.options import Checkpoint, Json, OperatingPoint, ScoredFormat, Types
from rayner.cli.output import logs_on_stderr, print_result
from rayner.cli.tables import print_metrics
from rayner.errors import InputError


def evaluate(
    checkpoint: Checkpoint,
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", exists=True, help="A corpus with gold mentions.")
    ],
    format: ScoredFormat = "auto",
    types: Types = None,
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", exists=True, help="The index to link to, if CHECKPOINT is a standardizer."
        ),
    ] = None,
    operating_point: OperatingPoint = None,
    as_json: Json = False,
) -> None:
    """Score a checkpoint on a corpus. A standardizer is scored on mentions with entity ids."""
    if index is not None and types is not None:
        raise InputError("--types", "conflicts with --index, which is for standardizers", "drop one of them")
    if index is None and operating_point is not None:
        raise InputError("--operating-point", "is for standardizers", "name its --index, or leave it out")
    with logs_on_stderr():
        if index is not None:
            from rayner.runtime.evaluate_linking import evaluate_linking

            metrics = evaluate_linking(
                checkpoint, corpus, index, format=format, operating_point=operating_point
            )
        else:
            from rayner.recipes import load_types
            from rayner.runtime.evaluate import evaluate

            wanted = None if types is None else load_types(types)
            metrics = evaluate(checkpoint, corpus, format=format, types=wanted)
    print_result(metrics, as_json, lambda metrics: print_metrics(metrics, f"{checkpoint} on {corpus}"))
