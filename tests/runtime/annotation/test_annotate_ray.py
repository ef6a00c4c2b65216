"""`annotate` on Ray: the same documents as a plain loop, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CheckpointError
from rayner.runtime.annotation.annotate import annotate
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import TEXTS, blocks_done, here, rejects, rows, write_jsonl
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
LONG = [text * 60 for text in TEXTS]


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A file in several blocks and one in a single block."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl.gz", LONG, "a")
    write_jsonl(folder / "b.jsonl", LONG, "b")
    (folder / "c.txt").write_text("A text.")
    return folder


@pytest.mark.parametrize("pool", [{"workers": 9}, {"max_workers": 9}])
def test_a_pool_annotates_as_a_plain_loop(
    ray_cluster: None, given: Path, tmp_path: Path, pool: dict[str, Any]
) -> None:
    """One that asks for more than the cluster has: its actors hold all CPUs and leave the readers room."""
    wanted = here(given, tmp_path / "here", also=("jsonl",))
    counts = annotate(Capitals(), [given], tmp_path / "out", also=("jsonl",), cpus=2.0, **pool)
    assert rows(tmp_path / "out") == rows(tmp_path / "here")
    timed = ("startup_seconds", "seconds", "words_per_second", "workers")
    assert {k: v for k, v in counts.items() if k not in timed} == {
        k: v for k, v in wanted.items() if k not in timed
    }
    assert counts["startup_seconds"] > 0
    assert counts["words_per_second"] > 0


def test_an_error_of_the_model_arrives_as_it_was_raised(
    ray_cluster: None, given: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="is broken; fix it"):
        annotate(Capitals(broken=True), [given], tmp_path / "out", workers=1)


@contextmanager
def driver(given: Path, out: Path, pids: Path, seconds: float, workers: str) -> Iterator[subprocess.Popen]:
    """A run in a process of its own, with a cluster of its own."""
    pids.mkdir(exist_ok=True)
    command = [sys.executable, str(ROOT / "tests/runtime/annotation/annotate_driver.py")]
    command += map(str, (given, out, pids, seconds, workers))
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.faults
def test_killed_actors_lose_and_double_nothing(given: Path, tmp_path: Path) -> None:
    here(given, tmp_path / "here")
    out, pids = tmp_path / "out", tmp_path / "pids"
    with driver(given, out, pids, 0.15, "2") as process:
        for kills in (1, 2):
            wait_for(
                lambda kills=kills: blocks_done(out) >= 2 * kills and len(list(pids.iterdir())) > kills,
                process=process,
            )
            killed = next(int(path.name) for path in pids.iterdir() if Path("/proc", path.name).exists())
            os.kill(killed, signal.SIGKILL)
        assert process.wait(timeout=280) == 0
    assert len(list(pids.iterdir())) >= 4
    assert rows(out) == rows(tmp_path / "here")


@pytest.mark.faults
def test_a_killed_driver_goes_on_where_it_stopped(given: Path, tmp_path: Path) -> None:
    here(given, tmp_path / "here")
    out, pids = tmp_path / "out", tmp_path / "pids"
    with driver(given, out, pids, 0.3, "2") as process:
        wait_for(lambda: blocks_done(out) >= 3, process=process)
        process.kill()
    written = {path: path.stat().st_mtime_ns for path in (out / ".work/blocks").iterdir()}
    assert len(written) < 10
    assert not (out / "_annotation.json").exists()
    finished = {path.stem: out / f"documents-{path.stem}.parquet" for path in written}
    times = {name: path.stat().st_mtime_ns for name, path in finished.items()}
    with driver(given, out, pids, 0.0, "1-2") as process:
        assert process.wait(timeout=280) == 0
    assert rows(out) == rows(tmp_path / "here")
    assert {name: path.stat().st_mtime_ns for name, path in finished.items()} == times, "done twice"


@pytest.mark.faults
def test_a_document_that_kills_its_worker_is_rejected_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", [*LONG[:20], "This one DIES.", *LONG[20:]])
    out = tmp_path / "out"
    with driver(folder, out, tmp_path / "pids", 0.0, "1") as process:
        assert process.wait(timeout=280) == 0
    (lost,) = rejects(out)
    assert lost["document_id"] == "d20"
    assert "the worker died over it" in lost["what"]
    assert len(rows(out)) == len(LONG)
