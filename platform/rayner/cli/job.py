"""A command as a job of a cluster: the work goes to a node with room for it, and its answer comes back."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import typer

from rayner.cli.app import app
from rayner.cli.app import main as run_here
from rayner.cli.printing import INTERRUPTED, errors_as_status, fail
from rayner.config.base import ScalingSettings

_LEADS = {"tune", "annotate", "convert", "check", "label", "resolve"}
"""Commands with `--workers` whose work is done by Ray tasks and actors of their own, unless `--workers 0`."""
_PASSED_ON = ("RAYNER_DATA", "RAYNER_CACHE", "RAYNER_TASKS", "RAYNER_WAIT_SECONDS")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed on standard output, its last error line, and its exit status."""

    status: int
    output: str
    error: str


def main(arguments: Sequence[str]) -> None:
    """Run a command, within a Ray cluster on a node that has what the recipe's `scaling` asks for.

    Without RAY_ADDRESS, away from the head (`--entrypoint-num-cpus`) and for help, it runs in this process.
    """
    arguments = list(arguments)
    if not os.environ.get("RAY_ADDRESS") or {"-h", "--help"} & set(arguments):
        run_here(arguments)
    with errors_as_status():
        from rayner.files.uris import check_uris, written_to
        from rayner.runtime.actors import needs_of_worker
        from rayner.runtime.elsewhere import Needs, on_head, work_elsewhere
        from rayner.runtime.run_folder import STORAGE_VARIABLE, storage_folder

        scaling, leads = needs_of(arguments)
        if not on_head():
            run_here(arguments)
        logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        logging.getLogger("rayner").setLevel(logging.INFO)
        needs = Needs() if leads else needs_of_worker(scaling)
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        # A URI stays one; the current folder of the job is not that of the node.
        storage = written_to(STORAGE_VARIABLE)
        environment[STORAGE_VARIABLE] = storage or str(Path(storage_folder()).absolute())
        check_uris(environment)
        try:
            outcome = work_elsewhere(partial(work, arguments), needs, environment)
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
    print(outcome.output, end="", flush=True)
    if outcome.error:
        print(outcome.error, file=sys.stderr)
    sys.exit(outcome.status)


def needs_of(arguments: Sequence[str]) -> tuple[ScalingSettings, bool]:
    """What the recipe of a command, or that of its checkpoint, asks for; whether others do the work.

    Raises:
        TyperException: the arguments are wrong.
        RecipeError: the recipe cannot be read, or its scaling is wrong.
    """
    from rayner.config.recipe_files import read_scaling

    name, values = _parsed(arguments)
    recipe, checkpoint = values.get("recipe"), values.get("checkpoint")
    changes = values.get("overrides") or []
    if recipe is not None:
        scaling = read_scaling(recipe, changes)
    elif checkpoint is not None:
        scaling = largest(read_scaling(path / "recipe.yaml") for path in _checkpoints(checkpoint))
    else:
        scaling = ScalingSettings()
    workers = values.get("workers")
    if name == "tune":
        return scaling, True
    if workers is None:
        # `rayner kb check` has no workers.
        leads = name in _LEADS and "workers" in values
        return scaling, leads or (name == "train" and scaling.workers > 0)
    return scaling, workers > 0


def largest(settings: Any) -> ScalingSettings:
    """What a process needs that does the work of each of them."""
    found = [*settings] or [ScalingSettings()]
    return found[0].model_copy(
        update={
            "cpus_per_worker": max(one.cpus_per_worker for one in found),
            "gpus_per_worker": max(one.gpus_per_worker for one in found),
            "memory_per_worker": max((one.memory_per_worker or 0 for one in found), default=0) or None,
        }
    )


def work(arguments: Sequence[str], attempt: int) -> Outcome:
    """What the command does, in this process; another attempt goes on with what the first has done."""
    output, errors = io.StringIO(), _Errors()
    status: Any = 0
    left = [argument for argument in arguments if attempt == 1 or argument != "--fresh"]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            run_here(left)
        except SystemExit as ended:
            status = ended.code
    return Outcome(status if isinstance(status, int) else 1, output.getvalue(), errors.last)


class _Errors(io.TextIOBase):
    """Standard error, which Ray shows where the job runs, but for the line that a command ends with."""

    def __init__(self) -> None:
        self._shown, self._line, self.last = sys.stderr, "", ""

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if line.startswith("error: "):
                self.last = line
            else:
                self._shown.write(line + "\n")
        self._shown.flush()
        return len(text)


def _parsed(arguments: Sequence[str]) -> tuple[str, Mapping[str, Any]]:
    """The name of the command, within its group, and the values of its arguments."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("rayner", list(arguments))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return context.info_name, context.params


def _checkpoints(path: Path) -> list[Path]:
    from rayner.config.recipe_files import read_yaml
    from rayner.files.fetching import is_there

    if path.is_dir() or is_there(path / "recipe.yaml"):
        return [path]

    values = read_yaml(path)
    stages = values.get("stages") if isinstance(values, dict) else None
    # What is wrong with the file is said where it is read for the work.
    given = stages if isinstance(stages, list) else []
    named = [stage.get("checkpoint") for stage in given if isinstance(stage, dict)]
    # In a URI nobody else makes one path of `pipelines/../runs`.
    return [Path(os.path.normpath(path.parent / str(name))) for name in named if name]
