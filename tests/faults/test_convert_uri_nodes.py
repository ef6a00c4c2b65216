"""A conversion at a URI on machines that share no folder: each puts its parts there, and any can be lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rayner.data.readers import find_units
from rayner.files.fetching import LOCAL_VARIABLE, local
from rayner.files.places import place_of
from rayner.runtime.corpora.convert import process
from tests.faults.own_ray import Nodes, lose
from tests.object_storage import BUCKET, Storage, environment
from tests.ray_work import Gated
from tests.waiting import wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

CORPUS, PLACE = (f"s3://{BUCKET}/converting/{name}" for name in ("in", "out"))
FILES, OPEN = 8, 3

DRIVER = """
import logging, sys
from pathlib import Path
from rayner.data.readers import find_units
from rayner.runtime.corpora.convert import process
from tests.ray_work import Gated

logging.basicConfig(level=logging.INFO)
place, corpus, gate = sys.argv[1:]
process(find_units(corpus), Gated(gate), "convert", Path(place), None, False, "jsonl", small=0, part_bytes=1)
"""


def parts_at(storage: Storage) -> list[str]:
    """The parts of which each file is in place."""
    names = storage.objects("converting/out/_objects/parts/")
    return [name for name in names if name.endswith("/_manifest.json")]


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.name not in ("counts.json", ".lock")
    }


def test_the_machines_of_the_driver_and_of_a_part_are_lost(
    nodes: Nodes, storage: Storage, tmp_path: Path
) -> None:
    for number in range(FILES):
        # The last documents wait, and each file has the last one of the file before.
        rows = [{"document_id": f"d{number + i}", "text": f"Ulm {number + i}."} for i in range(2)]
        rows = [row | {"group": "waits"} if number >= OPEN else row for row in rows]
        place_of(f"{CORPUS}/{number}.jsonl").write("".join(json.dumps(row) + "\n" for row in rows).encode())
    gate, log, reached = tmp_path / "gate", tmp_path / "log", environment(storage.url)
    nodes.have(0)
    with ExitStack() as stack:

        def machine(name: str) -> int:
            return stack.enter_context(nodes.apart(tmp_path / name, reached))

        def drive(name: str) -> subprocess.Popen[str]:
            (tmp_path / name).mkdir()
            # This folder leads any other process elsewhere.
            variables = {"RAY_ADDRESS": nodes.head.gcs, LOCAL_VARIABLE: "/proc/self/cwd/machine"}
            driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, PLACE, CORPUS, str(gate)],
                env=os.environ | dict(nodes.head.environment) | reached | variables,
                cwd=tmp_path / name,
                stderr=log.open("a"),
                text=True,
            )
            stack.callback(driver.kill)
            return driver

        both = [tmp_path / name for name in ("one", "other")]

        def wait_for_both(driver: subprocess.Popen[str], drivers: int) -> None:
            """Until both machines work on parts of this driver that wait, after so many drivers."""

            def wait() -> bool:
                assert driver.poll() is None, log.read_text()[-3000:]
                return all(len(list(folder.glob("waits-*"))) == drivers for folder in both)

            wait_for(wait, 200)

        one, _ = machine("one"), machine("other")
        driver = drive("driver")
        wait_for_both(driver, 1)
        driver.kill()
        driver.wait()
        done = parts_at(storage)
        driver = drive("again")
        wait_for_both(driver, 2)
        lose(one)
        machine("third")
        # Else the one machine that is left may have made all parts before this one has a process.
        wait_for(lambda: bool(list((tmp_path / "third").glob("waits-*"))), 200)
        gate.touch()
        assert driver.wait(300) == 0, log.read_text()[-3000:]
    assert 0 < len(done) <= OPEN
    assert f"going on after {len(done)} of {FILES} parts" in log.read_text()
    # Each machine has fetched what it read, and made nothing that lies there.
    assert all(list(folder.rglob("*.jsonl")) for folder in [*both, tmp_path / "third"])
    assert not list((tmp_path / "again").rglob("documents*"))
    process(
        find_units(CORPUS), Gated(str(gate)), "convert", tmp_path / "out", 0, False, "jsonl", part_bytes=1
    )
    assert content(local(PLACE)) == content(tmp_path / "out")
    assert not parts_at(storage)
