"""A training of a benchmark: a process of its own with one thread, which goes on where it was cut off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import ROOT, keep_origin
from rayner.errors import RaynerError

RECIPES = ROOT / "jobs" / "recipes"


def train(recipe: Path, out: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Train, or go on with, a run: what it says at its end. Its log lies beside its folder.

    Args:
        changes: KEY=VALUE of the recipe.

    Raises:
        RaynerError: the training failed.
    """
    if (out / "result.json").exists():
        return json.loads((out / "result.json").read_text("utf-8"))
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "rayner", "train", str(recipe), "--out", str(out)]
    command += ["--workers", "0", "--json", *(word for change in changes for word in ("--set", change))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    with out.with_suffix(".log").open("a") as log:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    if done.returncode:
        raise RaynerError(f"{out}: the training failed; see {out.with_suffix('.log')}")
    keep_origin(out)
    return json.loads(done.stdout.splitlines()[-1])
