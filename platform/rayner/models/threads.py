"""How many threads torch may use in a container, and threads beside that of a model."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Of a container: microseconds of CPU a period, or `max`, and the length of a period."""

if hasattr(os, "register_at_fork"):
    # A fork does not take the threads of OpenMP along: a second one would be waited for without end.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))


def usable_cores() -> int:
    """CPUs that this process may run on; no more than its container's quota pays for, but at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    try:
        quota, period = map(int, QUOTA.read_text().split())
    except (OSError, ValueError):
        return cores
    return min(cores, max(1, quota // period))


def heed_quota() -> None:
    """Let torch have no more threads than there are usable cores, unless `OMP_NUM_THREADS` says how many.

    More that it was told to have before are too many as well.

    By default it counts the CPUs of the machine. Threads beyond a quota use it up early in each period, and
    all wait for the next one.
    """
    cores = usable_cores()
    if "OMP_NUM_THREADS" not in os.environ and torch.get_num_threads() > cores:
        torch.set_num_threads(cores)


def one_thread(name: str) -> ThreadPoolExecutor:
    """One thread that works on the GPU of the thread that calls this: CUDA gives each new one the first."""
    if not torch.cuda.is_initialized():
        return ThreadPoolExecutor(1, name)
    return ThreadPoolExecutor(1, name, torch.cuda.set_device, (torch.cuda.current_device(),))
