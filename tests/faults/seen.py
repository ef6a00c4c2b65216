"""What a worker of a run does in each step, written down, and steps that wait until a test lets them go on.

`record` is a setup hook of Ray's worker processes. The folder that SEEN_FOLDER names holds `limit`, the step
before which workers wait, and gets a file of rows from each worker process.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "SEEN_FOLDER"


def record() -> None:
    from rayner.data import batches
    from rayner.runtime.training import loop as worker
    from rayner.runtime.training.distributed import rank, world_size

    share, take_step = batches.share, worker.take_step
    parts: deque[list[int]] = deque()

    def sharing(*arguments: Any) -> Any:
        part = share(*arguments)
        parts.append([int(number) for number in part])
        return part

    def taking(learner: Any, step: Any, progress: Any) -> None:
        folder = Path(os.environ[FOLDER_VARIABLE])
        while progress.step >= int((folder / "limit").read_text() or 0):
            time.sleep(0.05)
        take_step(learner, step, progress)
        row = {
            "step": progress.step,
            "rank": rank(),
            "workers": world_size(),
            "examples": parts.popleft(),
            "time": time.time(),
        }
        with (folder / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    batches.share, worker.take_step = sharing, taking


def rows(folder: Path) -> list[dict[str, Any]]:
    """What was written down, in order of time; lines that a killed process left unfinished are not there."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines if line.endswith("}")), key=lambda row: row["time"])


def taken(folder: Path) -> dict[int, list[int]]:
    """The examples of each step, as the workers that took it last shared them, in order."""
    last: dict[int, dict[int, dict[str, Any]]] = {}
    for row in rows(folder):
        last.setdefault(row["step"], {})[row["rank"]] = row
    found = {}
    for step, by_rank in last.items():
        workers = max(by_rank.values(), key=lambda row: row["time"])["workers"]
        found[step] = sorted(number for rank in range(workers) for number in by_rank[rank]["examples"])
    return found
