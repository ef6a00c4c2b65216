"""The memory of a process and all below it, as the kernel shares it out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Peak:
    """The largest sum that was seen, in bytes, and the parts that it had then."""

    def __init__(self) -> None:
        self.total = 0
        self.parts: dict[str, int] = {}


def proportional_set_sizes(root: int) -> dict[str, int]:
    """Bytes by process: each page divided by those who share it, shared memory included (Linux)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, ())
        with suppress(OSError, StopIteration):
            folder = Path("/proc", str(pid))
            lines = (folder / "smaps_rollup").read_text().splitlines()
            size = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            name = (folder / "cmdline").read_text().replace("\0", " ")[:60]
            found[f"{pid} {name}"] = size * 1024
    return found


@contextmanager
def peak_memory(root: int, every: float = 0.5) -> Iterator[Peak]:
    """Watch a process and all below it."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.is_set():
            parts = proportional_set_sizes(root)
            if (total := sum(parts.values())) > peak.total:
                peak.total, peak.parts = total, parts
            time.sleep(every)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()
