"""The verb `rayner serve`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from rayner.runtime.console import print_summary

Run = Callable[[Callable[[], Any], bool, Callable[[Any], None]], None]


def add_serve(app: typer.Typer, run: Run) -> None:
    """Add the verb; `run` calls it and prints its result, as for every other command."""

    @app.command()
    def serve(
        config: Annotated[Path, typer.Argument(exists=True, help="The YAML file: models, limits, replicas.")],
        name: Annotated[str, typer.Option(help="The application's name on the cluster.")] = "rayner",
        route_prefix: Annotated[
            str, typer.Option(help="Where its paths begin; each application of a cluster has its own.")
        ] = "/",
        as_json: Annotated[
            bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")
        ] = False,
    ) -> None:
        """Answer over HTTP until Ctrl-C; SIGHUP reads the file again and swaps models in place."""

        def verb() -> dict[str, Any]:
            from rayner.serving.run import serve_forever

            return serve_forever(config, name, route_prefix)

        run(verb, as_json, lambda result: print_summary(Console(), result, []))
