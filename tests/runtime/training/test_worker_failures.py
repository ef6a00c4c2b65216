"""A worker that fails ends the run on all workers: each says which one failed, and why."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch._C._distributed_c10d import PrefixStore, TCPStore

from rayner.errors import CorpusError
from rayner.runtime.training.loop import work
from tests.runtime.training.toy_task import LoopTask, toy_run

SECONDS = 400
"""Enough to start two processes on a busy machine; a collective would wait for half an hour."""


def bad_row(*_: Any) -> Any:
    raise CorpusError("corpus.jsonl:3", "has no text", "write one")


def broken(*_: Any) -> Any:
    raise ValueError("matrix of rank 0")


def failing_with(number: int) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise OSError(number, os.strerror(number), "model.safetensors")

    return fail


CASES: dict[str, tuple[int, str, Callable[..., Any]]] = {
    "a bad row in collate": (1, "collate", bad_row),
    "a bad row in loss": (1, "forward", bad_row),
    "a fault in loss": (1, "forward", broken),
    "a fault in loss of worker 0": (0, "forward", broken),
    "a full disk while saving": (0, "save", failing_with(errno.ENOSPC)),
    "a lost mount while saving": (0, "save", failing_with(errno.ESTALE)),
    "Ctrl-C": (1, "forward", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)),
}
"""The worker that fails, the method of the task that fails there, and how."""


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """What each of two workers raised, by case."""
    folder = tmp_path_factory.mktemp("failures")
    context = mp.get_context("forkserver")
    ports = context.Queue()
    processes = [context.Process(target=run_cases, args=(rank, ports, folder)) for rank in range(2)]
    for process in processes:
        process.start()
    deadline = time.monotonic() + SECONDS
    for process in processes:
        process.join(max(0, deadline - time.monotonic()))
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    yield {case: [_read(folder / f"{case}-{rank}.json") for rank in range(2)] for case in CASES}
    assert not late


def _read(path: Path) -> str:
    return json.loads(path.read_text()) if path.exists() else "did not end"


def run_cases(rank: int, ports: Any, folder: Path) -> None:
    torch.set_num_threads(1)
    # As with Ray Train, worker 0 keeps the store.
    if rank == 0:
        store = TCPStore("127.0.0.1", 0, 2, is_master=True, wait_for_workers=False)
        ports.put(store.port)
    else:
        store = TCPStore("127.0.0.1", ports.get(), 2, is_master=False)
    for case, (failing, method, failure) in CASES.items():
        dist.init_process_group("gloo", store=PrefixStore(case, store), rank=rank, world_size=2)
        task = LoopTask()
        if rank == failing:
            setattr(task, method, failure)
        try:
            work(toy_run(folder / case, task, checkpoint_every=1))
            ending = "nothing"
        except BaseException as error:
            ending = f"{type(error).__name__}: {error}"
        (folder / f"{case}-{rank}.json").write_text(json.dumps(ending))
        assert not dist.is_initialized()


@pytest.mark.parametrize("case", ["a bad row in collate", "a bad row in loss"])
def test_what_a_user_can_put_right_is_raised_everywhere(endings: dict[str, list[str]], case: str) -> None:
    assert endings[case] == [
        "CorpusError: corpus.jsonl:3: has no text (on worker 1 of 2); write one",
        "CorpusError: corpus.jsonl:3: has no text; write one",
    ]


def test_a_full_disk_on_one_worker_ends_both(endings: dict[str, list[str]]) -> None:
    first, second = endings["a full disk while saving"]
    assert first.startswith("InputError")
    assert "last: no room to write it" in first
    assert "(on worker 0 of 2); free some space and run the same command again" in second


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("a fault in loss", "worker 1 of 2 failed: ValueError: matrix of rank 0"),
        ("a fault in loss of worker 0", "worker 0 of 2 failed: ValueError: matrix of rank 0"),
    ],
)
def test_any_fault_ends_both_with_its_cause(endings: dict[str, list[str]], case: str, message: str) -> None:
    assert endings[case] == [f"WorkerFailedError: {message}"] * 2


def test_a_lost_mount_ends_both_and_says_so(endings: dict[str, list[str]]) -> None:
    first, second = endings["a lost mount while saving"]
    for ending in (first, second):
        assert ending.startswith("StorageError")
        assert f"({os.strerror(errno.ESTALE)})" in ending
        assert "a run is resumed from what is stored" in ending
    assert "(on worker 0 of 2); fix the storage" in second


def test_an_interrupted_worker_interrupts_the_others(endings: dict[str, list[str]]) -> None:
    assert endings["Ctrl-C"] == [
        "WorkerFailedError: worker 1 of 2 failed: KeyboardInterrupt",
        "KeyboardInterrupt: ",
    ]
