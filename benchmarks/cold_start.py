"""What commands cost from the start of their process to their end: `rayner --help`, and one sentence.

Each command runs in processes of its own, one after another; files are in the page cache from a first one
that does not count. Seconds of the clock depend on what else the machine does, CPU seconds hardly do. Below
each command are the packages whose import takes longest, without what they import, by `python -X importtime`.

    PYTHONPATH=platform python -m benchmarks.cold_start --json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import ROOT, add_out, measured, record

SENTENCE = "Ada Lovelace wrote to the Royal Society in London."
RECIPE = ROOT / "jobs" / "recipes" / "recognizer.yaml"
MAIN = "from rayner.cli import main; main()"
SHOWN = 6
UNITS = {"seconds": "s", "cpu_seconds": "s"}
CONDITIONS = """Medians of {rounds} processes, each of one thread; the recognizer has two encoders of the
shape of all-MiniLM-L6-v2. Imports: one process more, whose seconds of the clock are counted."""


def main() -> None:
    options = _options()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "best"
        subprocess.run([sys.executable, "-c", SAVE, str(RECIPE), str(checkpoint)], check=True)
        for name, arguments in (
            ("rayner --help", ["--help"]),
            ("rayner predict CHECKPOINT SENTENCE", ["predict", str(checkpoint), SENTENCE]),
        ):
            rows += measure(name, arguments, options.rounds)
    record(
        "cold_start",
        options.out,
        title="From the start of a command to its end",
        section="Speed",
        task="recognizer",
        conditions=CONDITIONS.format(rounds=options.rounds).replace("\n", " "),
        rows=measured(rows, UNITS, headline="seconds", where=lambda row: row["part"] == "all"),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


def measure(name: str, arguments: list[str], rounds: int) -> list[dict[str, Any]]:
    """A row for the whole command, and one for each of its slowest imports."""
    command = [sys.executable, "-c", MAIN, *arguments]
    spent = [_run(command) for _ in range(rounds + 1)][1:]
    row: dict[str, Any] = {"command": name, "part": "all"}
    for place, key in enumerate(UNITS):
        row[key] = round(median(one[place] for one in spent), 3)
    print(json.dumps(row), file=sys.stderr, flush=True)
    imports = _imports([sys.executable, "-X", "importtime", "-c", MAIN, *arguments])
    return [row] + [
        {"command": name, "part": f"import {package}", "seconds": round(seconds, 3)}
        for package, seconds in imports[:SHOWN]
    ]


def _run(command: list[str]) -> tuple[float, float]:
    """Seconds of the clock, and of the CPU."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment()
    )
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _imports(command: list[str]) -> list[tuple[str, float]]:
    """Packages and seconds, the slowest first; of each module the time without what it imports in turn."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
    found: defaultdict[str, float] = defaultdict(float)
    for line in done.stderr.splitlines():
        if match := re.fullmatch(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", line):
            found[match[2].partition(".")[0]] += int(match[1]) / 1e6
    return sorted(found.items(), key=lambda item: -item[1])


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


SAVE = """
import sys
from pathlib import Path
import torch
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import load_recipe, train_task
torch.manual_seed(1)
recipe = load_recipe(sys.argv[1])
task = train_task(recipe)
save_checkpoint(Path(sys.argv[2]), task, task.build(), {})
"""
"""A checkpoint of untrained weights: what it finds says nothing, and it costs what every other costs."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "cold_start")
    return parser.parse_args()


if __name__ == "__main__":
    main()
