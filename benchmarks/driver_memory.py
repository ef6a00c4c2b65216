"""How much memory the driver of a training takes until the examples are there, and at the end, where it
looks at the development part once more, whatever the corpus holds.

    python -m benchmarks.driver_memory --megabytes 2048

Builds the example set of a synthetic corpus, of which a part is held out, in a temporary folder, twice: the
second launch finds the set. Then it ends a training that had no step, with the answers to ten documents.
Peak resident set sizes, of the driver and of the process that read and cut the documents; with `--workers 0`
both are one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.figures import add_out, measured, record
from rayner.runtime.training.dev_answers import EVALUATION, write_predictions
from rayner.runtime.training.example_building import build_examples, find_units, read_each
from rayner.runtime.training.run_state import TrainState
from rayner.runtime.training.train import conclude
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe, task_of, train_task

WORDS = ("the", "of", "kelp", "growth", "storm", "harbour", "letters", "was", "seven", "and", "tides", "in")
NAMES = ("Harwich", "Ingrid", "Oslo", "Ada Lovelace")
CHARACTERS = 1000
"""Of a document."""


def write_corpus(path: Path, megabytes: float) -> int:
    """Documents of about a kilobyte in one file of JSON lines, and how many they are."""
    chosen, number, size = random.Random(0), 0, 0
    with path.open("w", encoding="utf-8") as file:
        while size < megabytes * 2**20:
            text = f"{number}: " + " ".join(chosen.choices(WORDS, k=CHARACTERS // 6))
            mentions = []
            for name in NAMES:
                mentions.append({"start": len(text) + 1, "end": len(text) + 1 + len(name), "type": "NAME"})
                text += f" {name}"
            size += file.write(json.dumps({"document_id": f"d{number}", "text": text, "mentions": mentions}))
            file.write("\n")
            number += 1
    return number


def build(folder: Path, workers: int, ends: bool) -> dict[str, Any]:
    """Build the set in this process's name, and end a training with `ends`: its peak, that of the largest
    worker, and seconds."""
    values = {
        "task": "recognizer",
        "encoder": "random:32x2",
        "corpus": {"train": [str(folder / "in.jsonl")], "dev_fraction": 0.05},
        "types": [{"name": "NAME", "description": "names"}],
        "training": {"epochs": 1},
    }
    if workers:
        start_ray(workers)
    recipe = parse_recipe(values, "benchmark")
    task, begun = train_task(recipe), time.monotonic()
    before = peak_of("self")
    found = build_examples(task, folder / "cache", workers)
    dev = find_units(task, "dev", folder / "cache", workers)
    if ends:
        save_checkpoint(folder / "run/best", task, task.build(), {"f1": 0.0})
        few = list(islice(read_each(task, dev), 10))
        write_predictions(folder / "run/best" / EVALUATION, task_of(recipe).kind, few, few)
        conclude(task, dev, folder / "run", TrainState("", 0, workers))
    return {
        "items": found.manifest["items"] + sum(len(unit.sizes) for unit in dev),
        "examples": len(found),
        "shards": found.manifest["shards"],
        "start_mb": before,
        "driver_mb": peak_of("self"),
        "worker_mb": max(map(peak_of, workers_of_ray())) if workers else peak_of("self"),
        "seconds": round(time.monotonic() - begun, 1),
    }


def start_ray(workers: int) -> None:
    """A cluster of so many CPUs, whose processes stay until they were asked for their peaks."""
    import ray

    source = Path(__file__).parents[1]
    path = os.pathsep.join((str(source / "platform"), str(source)))
    ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=2**28,
        _system_config={"idle_worker_killing_time_threshold_ms": 10**7},
        runtime_env={"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}},
    )


def workers_of_ray() -> list[str]:
    """The processes below this one that ran its tasks."""
    found = subprocess.run(
        ["ps", "-e", "-o", "pid=,args="], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    lines = [line.split(maxsplit=1) for line in found]
    return [pid for pid, command in lines if command.startswith("ray::") and is_below(int(pid), os.getpid())]


def is_below(pid: int, root: int) -> bool:
    """Whether a process is a descendant of another one."""
    while pid > 1:
        if pid == root:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False


def peak_of(pid: str) -> int:
    """The largest resident set of a process so far, in MB."""
    if pid == "self":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) // 2**10 for line in lines if line.startswith("VmHWM:")), 0)


def measure(megabytes: float, workers: int) -> list[dict[str, Any]]:
    """Two launches and the end of a training, each a process of its own."""
    folder = Path(tempfile.mkdtemp(prefix="driver-memory-"))
    try:
        count = write_corpus(folder / "in.jsonl", megabytes)
        rows = []
        for launch in ("first", "second", "end"):
            command = [sys.executable, "-m", "benchmarks.driver_memory", "--build", str(folder)]
            command += ["--end"] if launch == "end" else []
            ran = subprocess.run(
                [*command, "--workers", str(workers)], check=True, stdout=subprocess.PIPE, text=True
            )
            row = json.loads(ran.stdout.splitlines()[-1])
            assert row.pop("items") == count
            rows.append({"launch": launch, "corpus_mb": megabytes, "documents": count, **row})
        return rows
    finally:
        shutil.rmtree(folder)


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=2048)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--end", action="store_true", help=argparse.SUPPRESS)
    add_out(parser, "driver_memory")
    given = parser.parse_args()
    if given.build:
        print(json.dumps(build(given.build, given.workers, given.end)))
        return
    rows = measure(given.megabytes, given.workers)
    record(
        "driver_memory",
        given.out,
        title="Memory of a training's driver",
        section="Speed",
        task="recognizer",
        conditions="The example set of synthetic documents of a kilobyte in one file, 5 % of them held out; "
        f"{given.workers} workers. Peak resident set sizes; `start_mb` is the driver's before the build.",
        rows=measured(rows, {"start_mb": "MB", "driver_mb": "MB", "worker_mb": "MB", "seconds": "s"}),
    )
    print(json.dumps({"rows": rows}), file=sys.stdout)


if __name__ == "__main__":
    main()
