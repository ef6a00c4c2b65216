"""Threads of torch in a container with a CPU quota."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import rayner
from rayner.models import threads
from rayner.models.threads import heed_quota, one_thread, usable_cores
from rayner.runtime.training.train import train
from rayner.tasks.checkpoint import save_checkpoint
from rayner.tasks.registry import parse_recipe
from tests.runtime.training.several_workers import tiny_recipe
from tests.tasks.small import built, recognizer


@pytest.fixture
def quota(tmp_path, monkeypatch):
    """Sets what the container's file says, on a machine of eight cores."""
    path = tmp_path / "cpu.max"
    monkeypatch.setattr(threads, "QUOTA", path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    return path.write_text


@pytest.mark.parametrize(
    ("said", "cores"),
    [
        ("max 100000\n", 8),
        ("250000 100000\n", 2),
        ("50000 100000\n", 1),
        ("3200000 100000\n", 8),
        ("", 8),
    ],
)
def test_whole_cores_of_a_quota_are_usable(quota, said, cores):
    quota(said)
    assert usable_cores() == cores


def test_without_a_quota_all_cores_are_usable(quota):
    assert usable_cores() == 8


@pytest.mark.parametrize(("environment", "expected"), [(None, 2), ("6", 4)])
def test_torch_has_no_more_threads_unless_it_was_told_to(quota, monkeypatch, environment, expected):
    monkeypatch.delenv("OMP_NUM_THREADS")
    if environment is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", environment)
    quota("200000 100000")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        heed_quota()
        assert torch.get_num_threads() == expected
        torch.set_num_threads(1)
        heed_quota()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def forked_after_a_prediction(checkpoint: Path) -> tuple[int, int | None]:
    """The threads of a process that has predicted, and how one ends that is forked from it and predicts."""
    torch.set_num_threads(2)
    pipeline = rayner.load(checkpoint, "cpu")
    texts = ["Ada Lovelace wrote to nobody. " * 40] * 4
    pipeline.predict(texts)
    forked = multiprocessing.get_context("fork").Process(target=pipeline.predict, args=(texts,))
    forked.start()
    forked.join(60)
    forked.kill()
    return torch.get_num_threads(), forked.exitcode


def test_a_process_that_was_forked_after_a_prediction_predicts(tmp_path):
    task = recognizer()
    save_checkpoint(tmp_path / "best", task, built(task), {})
    # In a process of its own: one more thread of OpenMP stays for good.
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        assert pool.submit(forked_after_a_prediction, tmp_path / "best").result() == (2, 0)


def test_a_training_and_a_model_that_is_loaded_heed_the_quota(quota, monkeypatch, tmp_path):
    monkeypatch.delenv("OMP_NUM_THREADS")
    quota("200000 100000")
    before = torch.get_num_threads()
    recipe = parse_recipe(tiny_recipe(tmp_path, "tagger", epochs=1), "recipe")
    try:
        torch.set_num_threads(4)
        train(recipe, tmp_path / "run", workers=0)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(4)
        rayner.load(tmp_path / "run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_new_thread_works_on_the_gpu_of_the_one_that_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    own = threading.local()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: getattr(own, "device", 0))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: setattr(own, "device", device))
    own.device = 3
    with ThreadPoolExecutor(1) as another, one_thread("own") as pool:
        assert another.submit(torch.cuda.current_device).result() == 0
        assert pool.submit(torch.cuda.current_device).result() == 3
