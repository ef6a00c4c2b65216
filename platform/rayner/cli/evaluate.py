"""The command `rayner evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayner.cli.options import Checkpoint, Json, OperatingPoint, ScoredFormat, Types, Workers, given_path
from rayner.cli.output import logs_on_stderr, print_result
from rayner.cli.tables import print_metrics


def evaluate(
    checkpoint: Checkpoint,
    corpus: Annotated[
        Path, typer.Argument(metavar="CORPUS", parser=given_path, help="A corpus with gold mentions.")
    ],
    format: ScoredFormat = "auto",
    types: Types = None,
    index: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=given_path, help="The index to link to, if CHECKPOINT is a standardizer."
        ),
    ] = None,
    operating_point: OperatingPoint = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    """Score a checkpoint or a pipeline file on a corpus, a standardizer on mentions with entity ids."""
    with logs_on_stderr():
        from rayner.config.reading import load_types
        from rayner.runtime.evaluation.evaluate import evaluate

        wanted = None if types is None else load_types(types)
        options = {"types": wanted, "index": index, "operating_point": operating_point}
        metrics = evaluate(checkpoint, corpus, format=format, options=options, workers=workers or 0)
    print_result(metrics, as_json, lambda metrics: print_metrics(metrics, f"{checkpoint} on {corpus}"))
