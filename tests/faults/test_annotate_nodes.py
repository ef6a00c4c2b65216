"""An annotation on two nodes of a cluster loses one of them."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.own_ray import end, environment_of_nodes, lose, own_head, own_node
from tests.runtime.annotation.annotate_texts import TEXTS, blocks_done, here, rows, write_jsonl
from tests.waiting import wait_for

DRIVER = """
import os, sys
from pathlib import Path
import ray
from rayner.runtime.annotation.annotate import annotate
from tests.runtime.annotation.annotate_model import Capitals
given, out, pids, workers = sys.argv[1:]
pool = {"workers": 2} if workers == "2" else {"max_workers": 2}
annotate(Capitals(seconds=0.05, pids=Path(pids)), [given], out, cpus=1.0, **pool)
"""


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("workers", "replaced"), [("2", False), ("1-2", True)])
def test_a_lost_node_loses_and_doubles_nothing(tmp_path: Path, workers: str, replaced: bool) -> None:
    given, out, pids = tmp_path / "in", tmp_path / "out", tmp_path / "pids"
    given.mkdir()
    pids.mkdir()
    for name in "ab":
        write_jsonl(given / f"{name}.jsonl.gz", [text * 60 for text in TEXTS], name)
    here(given, tmp_path / "here")
    environment = environment_of_nodes()
    with ExitStack() as stack:
        head = stack.enter_context(own_head(options=["--num-cpus", "0"], environment=environment))
        lost, _ = [
            stack.enter_context(own_node(head, f"127.0.0.{number}", ["--num-cpus", "1"])) for number in (2, 3)
        ]
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, *map(str, (given, out, pids, workers))],
                env=dict(head.environment) | {"RAY_ADDRESS": head.gcs},
                cwd=tmp_path,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        stack.callback(end, driver.pid)
        wait_for(lambda: len(list(pids.iterdir())) == 2 and blocks_done(out) >= 2)
        assert driver.poll() is None, "the annotation was over before a node could be lost"
        lose(lost)
        if replaced:
            stack.enter_context(own_node(head, "127.0.0.4", ["--num-cpus", "1"]))
        assert driver.wait(300) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    assert rows(out) == rows(tmp_path / "here")
