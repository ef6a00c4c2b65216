"""Where the time goes from `rayner train --workers 2` to its first step, and after its last.

    python -m benchmarks.start_costs
    python -m benchmarks.start_costs --rounds 1 --no-record

A driver in a process of its own trains a tiny model on a local cluster of its own. Rows of JSON: what passes
between one mark and the next (`part`, of the clock), and what each kind of process computes until the first
step (`process`, CPU seconds, which other work on the machine changes little). Medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks.command import call_main
from benchmarks.figures import ROOT, add_out, measured, record
from rayner.errors import RaynerError

RECIPE = ROOT / "jobs" / "recipes" / "recognizer.yaml"
SETTINGS = (
    "encoder=random:32x2",
    "training.epochs=1",
    "training.tokens_per_step=2000",
    "training.log_every=1",
)
CONDITIONS = """A local cluster and a tiny model: what a start costs whatever the model. Seconds of the
clock depend on what else the machine does, CPU seconds (all processes of a kind, until the first step)
hardly do."""
UNITS = {"seconds": "s", "cpu_seconds": "s"}
PARTS = {
    "imported": "driver: imports",
    "joined": "driver: ray.init",
    "listed": "driver: example sets",
    "spawned": "Ray Train: from fit to the first process of a worker",
    "received": "workers: processes, process group, imports",
    "opened": "workers: the state of the run",
    "built": "workers: the model and what its steps need",
    "collated": "workers: the first batch",
    "stepped": "workers: the first step",
    "trained": "the other steps and the evaluation",
    "returned": "Ray Train: the end of the workers",
    "concluded": "driver: the end of the training",
    "ended": "driver: the end of the cluster",
}
"""What ends with each mark, in their order."""
SECONDS_BETWEEN_LOOKS = 0.25


def mark(folder: Path, name: str) -> None:
    """Note that some process has come so far; the first one counts."""
    path = folder / name
    if not path.exists():
        path.write_text(str(time.time()))


class Sent(list[Any]):
    """What a driver sends to its workers: that they have the code and what they work on is a mark."""

    def __init__(self, folder: Path, items: Sequence[Any]) -> None:
        super().__init__(items)
        self.folder = folder

    def __reduce__(self) -> Any:
        return _received, (self.folder, list(self))


def _received(folder: Path, items: list[Any]) -> list[Any]:
    mark(folder, "received")
    return items


def drive(folder: Path) -> None:
    """What `rayner train --workers 2` does, with marks."""
    from rayner.runtime import cluster, parallel
    from rayner.runtime.training import ray_workers
    from rayner.runtime.training import train as training
    from rayner.tasks.registry import load_recipe

    mark(folder, "imported")
    join, find_units, train_task, fit = (
        cluster.ensure_ray,
        training.find_units,
        training.train_task,
        ray_workers.work_on_cluster,
    )

    def joining() -> None:
        join()
        mark(folder, "joined")

    def finding(*arguments: Any) -> Any:
        return Sent(folder, find_units(*arguments))

    def fitting(*arguments: Any) -> Any:
        mark(folder, "listed")
        state = fit(*arguments)
        mark(folder, "returned")
        return state

    cluster.ensure_ray = parallel.ensure_ray = ray_workers.ensure_ray = joining
    training.find_units, ray_workers.work_on_cluster = finding, fitting
    training.train_task = lambda recipe: marked(train_task(recipe), folder)
    training.train(load_recipe(RECIPE, SETTINGS), folder / "run", workers=2)
    mark(folder, "concluded")


def marked(task: Any, folder: Path) -> Any:
    """The task, which leaves marks in other processes than this one."""
    driver = os.getpid()

    def with_mark(method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            if os.getpid() != driver:
                mark(folder, name)
            return method(*arguments, **options)

        return called

    for method, name in {"plan": "opened", "collate": "built", "forward": "collated"}.items():
        setattr(task, method, with_mark(getattr(task, method), name))
    return task


class Processes:
    """What each kind of process below a driver computes: CPU seconds, also of processes that are over."""

    def __init__(self, driver: int) -> None:
        self._driver = psutil.Process(driver)
        self._seen: dict[tuple[int, float], tuple[str, float]] = {}
        self.first_worker: float | None = None

    def look(self) -> None:
        """Read the clocks of all processes that there are."""
        with contextlib.suppress(psutil.Error):
            for process in [self._driver, *self._driver.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):
                    self._read(process)

    def _read(self, process: psutil.Process) -> None:
        kind, times = kind_of(process.cmdline()), process.cpu_times()
        if process == self._driver:
            kind = "driver"
        born = process.create_time()
        if kind == "ray::RayTrainWorker" and (self.first_worker is None or born < self.first_worker):
            self.first_worker = born
        self._seen[process.pid, born] = kind, times.user + times.system

    def seconds(self) -> dict[str, tuple[int, float]]:
        """How many processes of each kind there were, and what they have computed together."""
        found: dict[str, tuple[int, float]] = {}
        for kind, seconds in self._seen.values():
            count, total = found.get(kind, (0, 0.0))
            found[kind] = count + 1, total + seconds
        return found


def kind_of(command: Sequence[str]) -> str:
    """The kind of a process of Ray's by its command line."""
    words = " ".join(command)
    if words.startswith("ray::"):
        return words.split()[0].split(".")[0].rstrip(":")
    for name in ("gcs_server", "default_worker.py", "runtime_env/agent", "dashboard/agent", "dashboard.py"):
        if name in words.split(" --")[0] or name in words.split("--logs")[0]:
            return name
    for name in ("log_monitor", "monitor.py", "raylet"):
        if name in words.split(" --")[0]:
            return name
    return "other"


def measure() -> tuple[dict[str, float], dict[str, tuple[int, float]]]:
    """One start: the seconds of each part, and what processes computed until the first step."""
    with tempfile.TemporaryDirectory(prefix="start") as name:
        folder = Path(name)
        begin = time.time()
        command = [sys.executable, "-m", "benchmarks.start_costs", "--drive", name]
        path = os.pathsep.join((str(ROOT / "platform"), str(ROOT)))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        processes, until_first_step = Processes(process.pid), None
        while process.poll() is None:
            processes.look()
            if until_first_step is None and _first_step(folder):
                mark(folder, "stepped")
                until_first_step = processes.seconds()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        ended = time.time()
        if process.returncode or until_first_step is None:
            raise RaynerError(f"the training failed: {(folder / 'log').read_text()[-2000:]}")
        times = {name: float((folder / name).read_text()) for name in PARTS if (folder / name).exists()}
        times |= {"ended": ended, "trained": (folder / "run" / "last" / "recipe.yaml").stat().st_mtime}
        if processes.first_worker is not None:
            times["spawned"] = processes.first_worker
    parts, last = {}, begin
    for name, part in PARTS.items():
        if name in times:
            parts[part] = times[name] - last
            last = times[name]
    return parts, until_first_step


def _first_step(folder: Path) -> bool:
    log = folder / "run" / "log.jsonl"
    return log.exists() and log.stat().st_size > 0


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--note", action="append", default=[], help="what the page says beside it")
    parser.add_argument("--no-record", action="store_true", help="write no file")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    add_out(parser, "start_costs")
    options = parser.parse_args()
    if options.drive:
        drive(options.drive)
        return
    rounds = [measure() for _ in range(options.rounds)]
    rows: list[dict[str, Any]] = []
    for part in PARTS.values():
        seconds = [parts[part] for parts, _ in rounds if part in parts]
        if seconds:
            rows.append({"part": part, "seconds": statistics.median(seconds)})
    begun = list(PARTS.values()).index(PARTS["stepped"]) + 1
    to_first = [sum(parts.get(part, 0) for part in list(PARTS.values())[:begun]) for parts, _ in rounds]
    rows.append({"part": "until the first step", "seconds": statistics.median(to_first)})
    rows.append({"part": "all", "seconds": statistics.median(sum(p.values()) for p, _ in rounds)})
    kinds = sorted({kind for _, found in rounds for kind in found})
    for kind in kinds:
        found = [found[kind] for _, found in rounds if kind in found]
        count = statistics.median(count for count, _ in found)
        rows.append(
            {
                "process": kind,
                "processes": int(count),
                "cpu_seconds": statistics.median(seconds for _, seconds in found),
            }
        )
    total = [sum(seconds for _, seconds in found.values()) for _, found in rounds]
    rows.append({"process": "all", "cpu_seconds": statistics.median(total)})
    print(json.dumps({"rows": rows}))
    if not options.no_record:
        record(
            "start_costs",
            options.out,
            title="What a start on two workers costs",
            section="Speed",
            task="recognizer",
            conditions=CONDITIONS.replace("\n", " "),
            uncertainty="Medians of the rounds.",
            rows=measured(rows, UNITS, n=lambda _: options.rounds),
            notes=tuple(options.note),
        )


if __name__ == "__main__":
    call_main(main)
