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
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).resolve().parents[1]
_PATIENCE = 300.0


@contextmanager
def served(settings: Mapping[str, Any], folder: Path, core: int, rest: list[int]) -> Iterator[str]:
    """The address of `rayner serve` with these settings; its one replica on `core`, all else on `rest`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "serve.yaml"
    config.write_text(yaml.safe_dump({**settings, "http": {"port": port}}), "utf-8")
    log = folder / "serve.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "platform")}
    command = [sys.executable, "-m", "rayner.cli", "serve", str(config)]
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
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _is_replica(process: psutil.Process) -> bool:
    return "ServeReplica" in " ".join(process.cmdline())


def _pin(process: psutil.Process, cores: list[int]) -> None:
    """Put all threads of a process on the cores; each thread has its own affinity."""
    try:
        for thread in process.threads():
            os.sched_setaffinity(thread.id, cores)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return
