"""The command `rayner train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rayner.cli.options import Json, Overrides, Precision, Recipe, given_output, given_path, workers_option
from rayner.cli.printing import logs_on_stderr, print_result, report_command
from rayner.cli.tables import print_training


def train(
    recipe: Recipe,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=given_output,
            help="The run's folder, or its URI; if unset, runs/RECIPE here or in $RAYNER_STORAGE.",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over instead of resuming the run in --out.")
    ] = False,
    add_types: Annotated[
        Path | None,
        typer.Option(
            metavar="CHECKPOINT",
            parser=given_path,
            help="Add the recipe's types to this recognizer, whose own types stay as they are.",
        ),
    ] = None,
    workers: Annotated[int | None, workers_option("as the recipe says")] = None,
    precision: Precision = None,
    as_json: Json = False,
) -> None:
    """Train what a recipe describes, or resume the run in --out."""
    with logs_on_stderr():
        from rayner.runtime.run_folder import run_folder
        from rayner.runtime.training.train import train
        from rayner.tasks.registry import adding_types, load_recipe

        folder = out or run_folder(recipe.stem)
        given = [f"training.precision={precision}"] if precision else []
        described = load_recipe(recipe, [*(overrides or []), *given])
        if add_types is not None:
            from rayner.tasks.stages import checkpoint_in

            described = adding_types(described, checkpoint_in(add_types, "mentions"))
        result = train(described, folder, fresh=fresh, workers=workers)

    def show(result: dict) -> None:
        from rayner.tasks.card import commands_for
        from rayner.tasks.registry import task_of

        commands = commands_for(task_of(described).kind.card(described), str(result["checkpoint"]))
        print_training(result, [report_command(folder), *commands])

    print_result(result, as_json, show)
