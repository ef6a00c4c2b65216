"""The folder of a run: the one that a command fills, and where a run goes that names none."""

from __future__ import annotations

import os
from pathlib import Path

from rayner.errors import InputError

STORAGE_VARIABLE = "RAYNER_STORAGE"
_JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def check_out(out: Path) -> None:
    """Find out before any work whether a command can fill this folder.

    Raises:
        InputError: it is a file, or lies below one.
    """
    for path in (out, *out.parents):
        if path.exists():
            if not path.is_dir():
                where = f"--out {out}"
                what = "is a file" if path == out else f"lies below {path}, which is a file"
                raise InputError(where, what, "name a folder")
            return


def run_folder(name: str) -> Path:
    """`runs/NAME` below the folder that RAYNER_STORAGE names, else below the current one.

    The current folder of a Ray job is a copy of what was submitted: each node has its own, and Ray removes
    it. A job without storage writes below `~/rayner`, which does for a cluster of one machine.
    """
    return Path(storage_folder()) / "runs" / name


def storage_folder() -> str:
    """What RAYNER_STORAGE names, else the current folder or, in a job, `~/rayner`."""
    if storage := os.environ.get(STORAGE_VARIABLE):
        return storage
    return str(Path.home() / "rayner") if _JOB_VARIABLE in os.environ else "."
