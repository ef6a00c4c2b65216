"""An application in a process of its own, its replica on a core of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 300.0


class Server(NamedTuple):
    """`rayner serve` in a process of its own."""

    address: str
    process: psutil.Process
    config: Path

    def change(self, **settings: Any) -> None:
        """Put other settings in force; returns at once."""
        values = yaml.safe_load(self.config.read_text("utf-8"))
        self.config.write_text(yaml.safe_dump({**values, **settings}), "utf-8")
        self.process.send_signal(signal.SIGHUP)

    def replicas(self) -> set[int]:
        """The processes of the replicas."""
        return {child.pid for child in self.process.children(recursive=True) if _is_replica(child)}


@contextmanager
def served(settings: Mapping[str, Any], folder: Path, core: int, rest: list[int]) -> Iterator[Server]:
    """`rayner serve` with these settings; its replicas on `core`, all else on `rest`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "serve.yaml"
    config.write_text(yaml.safe_dump({**settings, "http": {"port": port}}), "utf-8")
    log = folder / "serve.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    command = [sys.executable, "-m", "rayner", "serve", str(config)]
    with log.open("w") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        end = time.monotonic() + _PATIENCE
        while "kill -HUP" not in log.read_text("utf-8"):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"rayner serve did not start: {log.read_text('utf-8')[-2000:]}")
            time.sleep(0.2)
        for child in psutil.Process(process.pid).children(recursive=True):
            _pin(child, [core] if _is_replica(child) else rest)
        yield Server(f"http://127.0.0.1:{port}", psutil.Process(process.pid), config)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _is_replica(process: psutil.Process) -> bool:
    try:
        return "ServeReplica" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _pin(process: psutil.Process, cores: list[int]) -> None:
    """Put all threads of a process on the cores; each thread has its own affinity."""
    try:
        for thread in process.threads():
            os.sched_setaffinity(thread.id, cores)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return
