"""The command `rayner serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayner.cli.options import Json, given_path
from rayner.cli.printing import logs_on_stderr, print_result, print_summary


def serve(
    config: Annotated[
        Path,
        typer.Argument(metavar="CONFIG", parser=given_path, help="The YAML file: models, limits, replicas."),
    ],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The application's name on the cluster.")
    ] = "rayner",
    route_prefix: Annotated[
        str,
        typer.Option(metavar="PATH", help="Where its paths begin; another one for each application."),
    ] = "/",
    as_json: Json = False,
) -> None:
    """Answer over HTTP until Ctrl-C. SIGHUP reads the file again and swaps models in place."""
    with logs_on_stderr():
        from rayner.serving.launch import serve_forever

        result = serve_forever(config, name, route_prefix)
    print_result(result, as_json, print_summary)
