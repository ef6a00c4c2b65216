"""`annotate` on Ray: the same documents as a plain loop, whoever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CheckpointError, RaynerError
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.annotation.attempts import FAULTS
from tests.runtime.annotation.annotate_model import BadDevice, Capitals
from tests.runtime.annotation.annotate_texts import (
    TEXTS,
    blocks_done,
    here,
    rejects,
    rows,
    untimed,
    write_jsonl,
)
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
LONG = [text * 4 for text in TEXTS]
pytestmark = pytest.mark.usefixtures("small_blocks")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A file in several blocks and one in a single block."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl.gz", LONG, "a")
    write_jsonl(folder / "b.jsonl", LONG, "b")
    (folder / "c.txt").write_text("A text.")
    return folder


@pytest.mark.parametrize("pool", [{"workers": 9, "cpus": 4.0}, {"max_workers": 9, "cpus": 2.0}])
def test_a_pool_annotates_as_a_plain_loop(
    ray_cluster: None, given: Path, tmp_path: Path, pool: dict[str, Any]
) -> None:
    """One that asks for more than the cluster has: its actors hold all CPUs and leave the readers room."""
    wanted = here(given, tmp_path / "here", also=("jsonl",))
    counts = annotate(Capitals(), [given], tmp_path / "out", also=("jsonl",), **pool)
    assert rows(tmp_path / "out") == rows(tmp_path / "here")
    assert untimed(counts) == untimed(wanted)
    assert counts["startup_seconds"] > 0
    assert counts["words_per_second"] > 0


def test_an_error_of_the_model_arrives_as_it_was_raised(
    ray_cluster: None, given: Path, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="is broken; fix it"):
        annotate(Capitals(broken=True), [given], tmp_path / "out", workers=1)


Driver = Callable[[Path, Path, Path, Path, str], AbstractContextManager[subprocess.Popen[bytes]]]


@pytest.fixture
def driver(joining: dict[str, str]) -> Driver:
    """A run in a process of its own, on the common cluster."""

    @contextmanager
    def running(given: Path, out: Path, pids: Path, gate: Path, workers: str) -> Iterator[Any]:
        pids.mkdir(exist_ok=True)
        command = [sys.executable, str(ROOT / "tests/runtime/annotation/annotate_driver.py")]
        command += map(str, (given, out, pids, gate, workers))
        process = subprocess.Popen(command, start_new_session=True, env=joining)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    return running


@pytest.mark.faults
def test_killed_actors_lose_and_double_nothing(driver: Driver, given: Path, tmp_path: Path) -> None:
    here(given, tmp_path / "here")
    out, pids, gate = tmp_path / "out", tmp_path / "pids", tmp_path / "gate"
    with driver(given, out, pids, gate, "2") as process:
        wait_for(lambda: blocks_done(out) >= 2 and len(list(pids.iterdir())) == 2, process=process)
        # Not one that began again: what it was killed over twice would be given up.
        for number, first in enumerate([int(path.name) for path in pids.iterdir()]):
            os.kill(first, signal.SIGKILL)
            wait_for(lambda number=number: len(list(pids.iterdir())) == 3 + number, process=process)
        gate.touch()
        assert process.wait(timeout=280) == 0
    assert rows(out) == rows(tmp_path / "here")


@pytest.mark.faults
def test_a_killed_driver_goes_on_where_it_stopped(driver: Driver, given: Path, tmp_path: Path) -> None:
    here(given, tmp_path / "here")
    out, pids, gate = tmp_path / "out", tmp_path / "pids", tmp_path / "gate"
    with driver(given, out, pids, gate, "2") as process:
        wait_for(lambda: blocks_done(out) >= 3, process=process)
        process.kill()
    # Not a note that an actor, which outlives its driver, is just writing under another name.
    written = list((out / ".work/blocks").glob("[!.]*"))
    assert len(written) < 10
    assert not (out / "_annotation.json").exists()
    finished = {path.stem: out / f"documents-{path.stem}.parquet" for path in written}
    times = {name: path.stat().st_mtime_ns for name, path in finished.items()}
    gate.touch()
    with driver(given, out, pids, gate, "1-2") as process:
        assert process.wait(timeout=280) == 0
    assert rows(out) == rows(tmp_path / "here")
    assert {name: path.stat().st_mtime_ns for name, path in finished.items()} == times, "done twice"


@pytest.mark.faults
def test_a_document_that_kills_its_worker_is_rejected_and_no_other(driver: Driver, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", [*LONG[:20], "This one DIES.", *LONG[20:]])
    out, gate = tmp_path / "out", tmp_path / "gate"
    gate.touch()
    with driver(folder, out, tmp_path / "pids", gate, "1") as process:
        assert process.wait(timeout=280) == 0
    (lost,) = rejects(out)
    assert lost["document_id"] == "d20"
    assert "the worker died over it" in lost["what"]
    assert len(rows(out)) == len(LONG)


@pytest.mark.faults
def test_another_actor_does_the_block(ray_cluster: None, tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", LONG[:10])
    here(given, tmp_path / "here")
    (tmp_path / "pids").mkdir()
    model = BadDevice(pids=tmp_path / "pids", failures=FAULTS - 1)
    counts = annotate(model, [given], tmp_path / "out", workers=1)
    assert (counts["documents"], counts["rejected"]) == (len(LONG[:10]), 0)
    assert rows(tmp_path / "out") == rows(tmp_path / "here")
    assert len(list((tmp_path / "pids").iterdir())) == FAULTS


@pytest.mark.faults
def test_a_device_that_fails_again_and_again_fails_the_run(ray_cluster: None, tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", LONG[:10])
    (tmp_path / "pids").mkdir()
    model = BadDevice(pids=tmp_path / "pids", failures=99, error="OutOfMemoryError")
    # Whichever block it is: two wait at the worker, and both come again each time.
    with pytest.raises(
        RaynerError, match=rf"out of memory.*{FAULTS} workers failed so over the block of .*in\.jsonl:\d+$"
    ):
        annotate(model, [given], tmp_path / "out", workers=1)
    assert here(given, tmp_path / "out", model=Capitals())["rejected"] == 0


def test_a_continuation_has_the_same_documents(ray_cluster: None, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "m.jsonl", [*LONG, "Twice"], "m")
    here(folder, tmp_path / "out")
    write_jsonl(folder / "a.jsonl", LONG[:30], "a")
    write_jsonl(folder / "t.jsonl", [*LONG, "Twice"], "m")
    counts = annotate(Capitals(), [folder], tmp_path / "out", workers=1, cpus=0.5)
    assert untimed(counts) == untimed(here(folder, tmp_path / "fresh"))
    assert counts["duplicates"] == len(LONG) + 1
    assert len(rows(tmp_path / "out")) == len(LONG) + 31


@pytest.mark.faults
def test_the_run_fails_with_the_name_of_the_file(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [write_jsonl(tmp_path / f"{n}.jsonl", LONG, n) for n in "ab"]
    from rayner.runtime.annotation import annotate as module

    pool = module.pool_of

    def remove(*arguments: Any) -> Any:
        given[1].unlink()
        return pool(*arguments)

    monkeypatch.setattr(module, "pool_of", remove)
    with pytest.raises(RaynerError, match=r"^\S*b\.jsonl: cannot be read \(.*[Nn]o such file"):
        annotate(Capitals(), given, tmp_path / "out", workers=1)
    write_jsonl(given[1], LONG, "b")
    monkeypatch.undo()
    counts = here(given, tmp_path / "again")
    assert (counts["documents"], counts["rejected"]) == (2 * len(LONG), 0)
