"""Ray clusters that a test starts for itself: own ports, own temporary folder, own processes to end."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from ray.util.state import list_nodes
from ray.util.state.exception import RayStateApiException, ServerUnavailable

from rayner.files.fetching import LOCAL_VARIABLE
from tests.waiting import wait_for


@dataclass(frozen=True, slots=True)
class Head:
    """A head node: where its GCS and its dashboard listen, its temporary folder, its environment."""

    gcs: str
    dashboard: str
    folder: Path
    environment: Mapping[str, str]


def environment_of_nodes() -> dict[str, str]:
    """For a cluster that soon sees that a node is lost."""
    return {
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_health_check_period_ms": "1000",
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
        "RAY_TRAIN_ENABLE_STATE_TRACKING": "0",
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",
    }


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def own_head(
    python: str = sys.executable,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Iterator[Head]:
    """`ray start --head`, and the end of every process below it."""
    # Short, because the paths of Unix sockets are; not below /tmp/ray, which other clusters use.
    folder = Path(tempfile.mkdtemp(prefix="ry"))
    gcs, dashboard, client, agent = (port or free_port(), *(free_port() for _ in range(3)))
    known = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | dict(environment or {})
    command = [
        *(python, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"),
        *("--node-ip-address", "127.0.0.1", "--port", str(gcs), "--temp-dir", str(folder)),
        *("--dashboard-host", "127.0.0.1", "--dashboard-port", str(dashboard)),
        *("--ray-client-server-port", str(client), "--dashboard-agent-listen-port", str(agent)),
        *("--min-worker-port", "0", "--max-worker-port", "0", "--object-store-memory", str(100 * 2**20)),
        *options,
    ]
    with (folder / "start.log").open("wb") as log:
        process = subprocess.Popen(command, env=known, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: _listens(dashboard) or process.poll() is not None, 240)
        assert process.poll() is None, (folder / "start.log").read_text()
        yield Head(f"127.0.0.1:{gcs}", f"http://127.0.0.1:{dashboard}", folder, known)
    finally:
        end(process.pid)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def own_node(
    head: Head,
    address: str,
    options: Sequence[str] = (),
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """A further node, at another address of this machine; the process above all of it, begun in `folder`."""
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--address", head.gcs, "--block"),
        *("--node-ip-address", address, "--dashboard-agent-listen-port", str(free_port())),
        *("--min-worker-port", "0", "--max-worker-port", "0", "--object-store-memory", str(100 * 2**20)),
        *("--disable-usage-stats", *options),
    ]
    log = head.folder / f"node-{time.time_ns()}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=dict(head.environment) | dict(environment or {}),
            cwd=folder or head.folder,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: "Ray runtime started" in log.read_text() or process.poll() is not None, 240)
        assert process.poll() is None, log.read_text()
        yield process.pid
    finally:
        end(process.pid)
        process.wait()


class Nodes:
    """A head without CPUs, and nodes with one CPU each, at addresses of their own."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self._addresses = (f"127.0.0.{number}" for number in itertools.count(2))
        self._running: dict[str, tuple[int, contextlib.ExitStack]] = {}

    @property
    def addresses(self) -> list[str]:
        return list(self._running)

    def start(self) -> None:
        address, stack = next(self._addresses), contextlib.ExitStack()
        self._running[address] = (
            stack.enter_context(own_node(self.head, address, ["--num-cpus", "1"])),
            stack,
        )

    def have(self, count: int) -> None:
        """Start or end nodes until there are so many, and the cluster knows of no other."""
        while len(self._running) > count:
            self._end_one()
        while len(self._running) < count:
            self.start()
        wait_for(lambda: self._alive() == set(self._running), pause=0.3)

    def lose_one(self) -> None:
        """Lose the oldest."""
        lose(self._running[self.addresses[0]][0])
        self._end_one()

    def end_all(self) -> None:
        while self._running:
            self._end_one()

    @contextlib.contextmanager
    def one(self, folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[tuple[str, int]]:
        """A further node, begun in a folder, that ends with the context; its address and its process."""
        address = next(self._addresses)
        with own_node(self.head, address, ["--num-cpus", "1"], folder, environment) as process:
            yield address, process

    @contextlib.contextmanager
    def apart(self, folder: Path, environment: Mapping[str, str]) -> Iterator[int]:
        """A further node whose folder, made here, is its `RAYNER_LOCAL`; its process."""
        folder.mkdir()
        with self.one(folder, {**environment, LOCAL_VARIABLE: str(folder)}) as (_, process):
            yield process

    def _end_one(self) -> None:
        _, stack = self._running.pop(self.addresses[0])
        stack.close()

    def _alive(self) -> set[str]:
        nodes: list[Any] = []
        # The dashboard listens before it can answer.
        with contextlib.suppress(RayStateApiException, ServerUnavailable):
            # Without a filter: Ray 2.60 takes what a filter leaves out for missing, and raises.
            nodes = list_nodes(self.head.dashboard)
        return {node.node_ip for node in nodes if node.state == "ALIVE" and not node.is_head_node}


def lose(pid: int) -> None:
    """What a node's loss is: kill -9 for its raylet and all that runs there."""
    found = psutil.Process(pid).children(recursive=True)
    for process in sorted(found, key=lambda process: process.name() != "raylet"):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def end(pid: int) -> None:
    """End a process and all below it: politely, then not."""
    if not psutil.pid_exists(pid):
        return
    root = psutil.Process(pid)
    found = [*root.children(recursive=True), root]
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=3)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=10)


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex(("127.0.0.1", port)) == 0
