"""The command `rayner report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayner.cli.options import Json, given_output, given_path
from rayner.cli.printing import logs_on_stderr, print_result, print_summary
from rayner.files.uris import with_uris


def report(
    run_folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", parser=given_path, help="The folder of a run, a sweep or an evaluation."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=given_output, help="The HTML file; if unset, in the run's folder."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page: curves, scores, examples of errors."""
    with logs_on_stderr():
        from rayner.runtime.reports.report import report

        result = {"report": with_uris(str(report(run_folder, out)))}
    print_result(result, as_json, print_summary)
