"""An annotation on two nodes of a cluster loses one of them, or all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.own_ray import Nodes, end
from tests.runtime.annotation.annotate_texts import TEXTS, blocks_done, here, rows, write_jsonl
from tests.waiting import wait_for

DRIVER = """
import os, sys
from pathlib import Path
import ray
from rayner.runtime.annotation.annotate import annotate
from tests.runtime.annotation.annotate_model import Capitals
given, out, pids, gate, workers = sys.argv[1:]
pool = {"workers": 2} if workers == "2" else {"max_workers": 2}
annotate(Capitals(gate=Path(gate), pids=Path(pids)), [given], out, cpus=1.0, **pool)
"""


def start(nodes: Nodes, folder: Path, workers: str, **environment: str) -> subprocess.Popen[bytes]:
    given = [str(folder / name) for name in ("in", "out", "pids", "gate")]
    with (folder / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, *given, workers],
            env={**nodes.head.environment, "RAY_ADDRESS": nodes.head.gcs, **environment},
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("workers", "replaced"), [("2", False), ("1-2", True)])
def test_a_lost_node_loses_and_doubles_nothing(
    nodes: Nodes, tmp_path: Path, workers: str, replaced: bool
) -> None:
    given, out, pids, gate = (tmp_path / name for name in ("in", "out", "pids", "gate"))
    given.mkdir()
    pids.mkdir()
    for name in "ab":
        write_jsonl(given / f"{name}.jsonl.gz", [text * 60 for text in TEXTS], name)
    here(given, tmp_path / "here")
    nodes.have(2)
    driver = start(nodes, tmp_path, workers)
    try:
        wait_for(lambda: len(list(pids.iterdir())) == 2 and blocks_done(out) >= 2, process=driver)
        nodes.lose_one()
        if replaced:
            nodes.start()
        gate.touch()
        assert driver.wait(300) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    finally:
        end(driver.pid)
    assert rows(out) == rows(tmp_path / "here")


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_where_all_nodes_went_the_wait_has_a_bound(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "pids").mkdir()
    write_jsonl(tmp_path / "in" / "a.jsonl", [text * 60 for text in TEXTS], "a")
    nodes.have(1)
    driver = start(nodes, tmp_path, "1-2", RAYNER_WAIT_SECONDS="10")
    try:
        wait_for(lambda: len(list((tmp_path / "pids").iterdir())) == 1, process=driver)
        nodes.end_all()
        assert driver.wait(300) != 0
    finally:
        end(driver.pid)
    said = (tmp_path / "driver.log").read_text()
    assert "the cluster: no node has had room for cpus 0.99 for 10 s; free are 0 of 0 CPU" in said
