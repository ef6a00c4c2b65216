"""Waits for a cluster without room end, and say for what; work that is lost each time names its files."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from rayner.data import scans
from rayner.data.readers.base import FileUnit
from rayner.errors import InputError, RaynerError
from rayner.runtime import elsewhere, parallel
from rayner.runtime.annotation.execution import Pool, run_on_ray
from rayner.runtime.corpora.kept_parts import Part
from rayner.runtime.elsewhere import WAIT_VARIABLE
from rayner.runtime.parallel import parallel_map
from rayner.runtime.shared_folder import check_nodes, marker_file
from rayner.runtime.sweeps.callback import WaitsForRoom
from rayner.runtime.sweeps.space import load_space
from rayner.runtime.sweeps.sweep import sweep
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.training.example_building import build_examples, find_units
from rayner.serving import launch
from rayner.tasks.registry import parse_recipe, train_task
from tests.ray_work import Holder, end, hold
from tests.runtime.training.several_workers import tiny_recipe

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster of which others hold all CPUs, and little patience."""
    holder: Any = ray.remote(num_cpus=ray.cluster_resources()["CPU"])(Holder).remote()
    ray.get(holder.started.remote())
    monkeypatch.setenv(WAIT_VARIABLE, "1.5")
    monkeypatch.setattr(elsewhere, "SECONDS_BETWEEN_LINES", 0.0)
    yield
    ray.kill(holder)


def test_when_all_parts_are_done_nothing_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver would end with a task that begins at that moment."""
    cancelled: list[Any] = []
    monkeypatch.setattr(ray, "cancel", cancelled.append)
    assert sorted(parallel_map(abs, [-1, 2, -3], 2)) == [1, 2, 3]
    assert not cancelled


@pytest.mark.faults
def test_a_part_whose_process_dies_each_time_names_its_files() -> None:
    units = (FileUnit("jsonl", ("corpus/a.jsonl",), "a"), FileUnit("jsonl", ("corpus/b.jsonl",), "b"))
    part = Part("key", scans.Part(units, ((0, 0),) * 2))
    lost = r"corpus/a\.jsonl, corpus/b\.jsonl: the work lost its node or process each time, as when memory"
    with pytest.raises(RaynerError, match=lost) as caught:
        list(parallel_map(end, [part]))
    assert "\n" not in str(caught.value)


def test_parts_that_have_no_cpu_are_refused_in_time(no_room: None, caplog: pytest.LogCaptureFixture) -> None:
    refused = r"no node has had room for cpus 1 for 1\.5 s; free are 0 of 4 CPU"
    with caplog.at_level(logging.INFO), pytest.raises(InputError, match=refused):
        list(parallel_map(abs, [1, 2]))
    assert "waiting for a node with room for cpus 1; free are 0 of 4 CPU" in caplog.text


def test_parts_whose_nodes_all_went_are_refused_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert list(parallel_map(abs, [-1], 1)) == [1]
    monkeypatch.setenv(WAIT_VARIABLE, "1.5")
    monkeypatch.setattr(parallel, "SECONDS_BETWEEN_LOOKS", 0.1)
    # As where the tasks below have gone back to wait for a node.
    monkeypatch.setattr(ray, "cluster_resources", dict)
    refused, gate = r"no node has had room for cpus 1 for 1\.5 s; free are 0 of 0 CPU", tmp_path / "gate"
    try:
        with pytest.raises(InputError, match=refused):
            list(parallel_map(hold, [str(gate)] * 4, 4))
    finally:
        gate.touch()


def test_an_annotation_that_has_no_room_is_refused_in_time(no_room: None, tmp_path: Any) -> None:
    annotator: Any = partial(Holder)
    with pytest.raises(
        InputError, match=r"no node has had room for cpus 2\.0 for 1\.5 s; free are 0 of 4 CPU"
    ):
        next(run_on_ray(annotator, [], tmp_path, Pool(1, 3, 2, 0)))


def test_a_sweep_whose_trials_have_no_room_is_refused_in_time(
    no_room: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "space.py").write_text("def space():\n    return {'training.epochs': [1]}\n")
    recipe = parse_recipe(tiny_recipe(tmp_path, "tagger"), "recipe")
    settings = sweep_settings(objectives=objectives(["f1"], recipe), search="grid", max_concurrent=1)
    # What trials share is made on all CPUs before them, and waits for room likewise: here it is there.
    task, cache = train_task(recipe), tmp_path / "sweep/.examples"
    build_examples(task, cache)
    find_units(task, "dev", cache)
    refused = r"no node has had room for a trial \(1 CPU\) for 1\.5 s; free are 0 of 4 CPU"
    with caplog.at_level(logging.INFO), pytest.raises(InputError, match=refused) as caught:
        sweep(load_space(str(tmp_path / "space.py")), recipe, tmp_path / "sweep", settings)
    assert "\n" not in str(caught.value)
    assert (
        "waiting for room for a trial (1 CPU), or for its process to start; free are 0 of 4 CPU"
        in caplog.text
    )
    assert [*(tmp_path / "sweep/trials").glob("*/outcome.json")] == []


def test_only_while_no_trial_runs_a_sweep_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "0")
    waits = WaitsForRoom({"GPU": 0.5, "memory": 3 * 2**29})

    def step(*states: str) -> None:
        waits.on_step_begin(1, [SimpleNamespace(status=state) for state in states])

    for states in (
        ("PENDING",),
        ("PENDING", "RUNNING"),
        ("PENDING", "TERMINATED"),
        ("TERMINATED",),
        ("PENDING",),
    ):
        step(*states)
    with pytest.raises(InputError, match=r"a trial \(0\.5 GPU, 1\.5 GiB of memory\) for 0 s"):
        step("PENDING", "ERROR")


def test_a_service_whose_replicas_never_run_is_refused_in_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "3")
    monkeypatch.setattr(elsewhere, "SECONDS_BETWEEN_LINES", 0.0)
    state = SimpleNamespace(app_status=SimpleNamespace(status="DEPLOYING"))
    client = SimpleNamespace(get_serve_status={"mine": state}.__getitem__)
    monkeypatch.setattr(launch, "_client", lambda: client)
    refused = r"no replicas of the application mine have answered for 3 s; free are .* CPU"
    with caplog.at_level(logging.INFO), pytest.raises(InputError, match=refused):
        launch._wait("mine", lambda: False)
    assert "waiting for replicas of the application mine that answer; free are" in caplog.text
    assert not launch._wait("mine", lambda: True)


def test_a_node_that_goes_while_it_is_asked_for_a_folder_is_passed_over(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone = {"NodeID": "a" * 56, "Alive": True}
    nodes = ray.nodes()
    monkeypatch.setattr(ray, "nodes", lambda: [*nodes, gone])
    with marker_file(tmp_path) as marker:
        check_nodes(marker)
    assert "went while it looked at" in caplog.text
