"""The command `rayner evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayner.cli.options import (
    Checkpoint,
    Json,
    LinkedIndex,
    NilShare,
    OperatingPoint,
    Precision,
    ScoredFormat,
    Support,
    Types,
    Workers,
    given_output,
    given_path,
)
from rayner.cli.printing import logs_on_stderr, print_result, report_command
from rayner.cli.tables import print_evaluation


def evaluate(
    checkpoint: Checkpoint,
    corpus: Annotated[
        list[Path], typer.Argument(metavar="CORPUS", parser=given_path, help="Corpora with gold mentions.")
    ],
    format: ScoredFormat = "auto",
    types: Types = None,
    index: LinkedIndex = None,
    operating_point: OperatingPoint = None,
    nil_share: NilShare = None,
    support: Support = None,
    workers: Workers = None,
    precision: Precision = None,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=given_output,
            metavar="DIR",
            help="The folder for metrics, gold and answers, which rayner report shows.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a checkpoint or a pipeline file on a corpus, a standardizer on mentions with entity ids."""
    with logs_on_stderr():
        from rayner.config.recipe_files import load_types
        from rayner.runtime.evaluation.evaluate import evaluate

        wanted = None if types is None else load_types(types)
        options = {"types": wanted, "index": index, "support": support}
        options |= {"operating_point": operating_point, "nil_share": nil_share}
        how = {"format": format, "options": options, "workers": workers or 0, "precision": precision}
        metrics = evaluate(checkpoint, corpus, **how, out=out)

    title = f"{checkpoint} on {', '.join(map(str, corpus))}"
    commands = [] if out is None else [report_command(out)]
    print_result(metrics, as_json, lambda metrics: print_evaluation(metrics, title, commands))
