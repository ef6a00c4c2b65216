"""Where a run goes that names no folder."""

from __future__ import annotations

import os
from pathlib import Path

STORAGE_VARIABLE = "RAYNER_STORAGE"
_JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"


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
