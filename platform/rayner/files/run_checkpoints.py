"""From the folder of a run to its checkpoint."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from rayner.errors import CheckpointError, RecipeError
from rayner.files.uris import without_file_scheme

MANIFEST = "checkpoint.json"
RECIPE = "recipe.yaml"
BEST, LAST = "best", "last"
LOG = "log.jsonl"
SWEEP, WINNER = "sweep.json", "winner"
"""What tells that a folder is a sweep, and its folder with the run of the best settings."""


def named_checkpoint(named: str, folder: Path, where: str) -> Path:
    """`checkpoint_of` a path in a file, which counts from the folder.

    Args:
        where: the key that names it, for errors.

    Raises:
        RecipeError: a text that is no path. CheckpointError, InputError, StorageError: as `checkpoint_of`.
    """
    try:
        path = (folder / without_file_scheme(named)).resolve()
    except ValueError:
        what = f"{named!r:.60} is no path: it has a null character or half a surrogate pair"
        raise RecipeError(where, what, "write a path such as RUN/best") from None
    return checkpoint_of(path)


def checkpoint_of(path: str | os.PathLike[str]) -> Path:
    """The checkpoint that a path or URI names: `best` in the folder of a run, anything else as it is.

    Raises:
        CheckpointError: the folder is a run that has no `best` yet, or a sweep, which has several.
        InputError, StorageError: as `rayner.files.fetching.is_there`.
    """
    # Not above: the command line takes the names from here, and pyarrow takes long to import.
    from rayner.files.fetching import is_there

    path = Path(path)
    if is_there(path / MANIFEST):
        return path
    if is_there(path / BEST / MANIFEST):
        return path / BEST
    if is_there(path / RECIPE) and is_there(path / LOG):
        what = f"is a run without {BEST}/: it was ended before its first evaluation"
        hint = f"continue it with `rayner train RECIPE --out {shlex.quote(str(path))}`"
        if is_there(path / LAST / MANIFEST):
            hint += f", or name {path / LAST}, its last state"
        raise CheckpointError(str(path), what, hint)
    if is_there(path / SWEEP):
        hint = f"name the run of its best settings, {path / WINNER}"
        raise CheckpointError(str(path), "is a sweep, not a checkpoint", hint)
    return path
