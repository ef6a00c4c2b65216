"""A Ray of this machine: what it says on the screen, which is nothing, and how a command ends with it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import InputError, RaynerError
from rayner.runtime.cluster import ensure_ray, quiet_ray_data

WORK = """
import ray
from rayner.runtime.cluster import ensure_ray

@ray.remote
class Worker:
    def answer(self):
        return 42

ensure_ray()
print(ray.get(Worker.remote().answer.remote()))
"""


@pytest.mark.faults
def test_a_ray_of_this_machine_starts_works_and_ends_without_a_word(tmp_path: Path) -> None:
    """Of a user who has no token yet, for whom Ray makes one and says so."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    known |= {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WORK], env=known, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


COMMAND = """
import time
import ray
from rayner.cli.printing import logs_on_stderr, print_result
from rayner.runtime.cluster import ensure_ray

@ray.remote
class Worker:
    def answer(self):
        print("said by each")
        return 42

with logs_on_stderr():
    ensure_ray()
    workers = [Worker.remote() for _ in range(2)]
    answers = ray.get([worker.answer.remote() for worker in workers])
    time.sleep(1)  # what they print takes its time, more so on a loaded machine
print_result(answers, True, print)
"""


@pytest.mark.faults
def test_nothing_that_workers_print_comes_after_the_result() -> None:
    """Ray holds back what several of them print until it ends, and then prints it on standard output."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    known |= {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], env=known, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "[42, 42]\n"), done.stderr
    assert "said by each" in done.stderr


INTERRUPTED = """
import signal
import time
from rayner.cli.app import app, main
from rayner.runtime.cluster import ensure_ray

# A shell that runs the tests in its background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

@app.command()
def wait():
    ensure_ray()
    print("begun", flush=True)
    time.sleep(300)

main(["wait"])
"""


@pytest.mark.faults
def test_ctrl_c_again_and_again_lets_ray_end() -> None:
    known = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    known |= {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-c", INTERRUPTED]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=known, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        while process.poll() is None:
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "error: interrupted\n")
    assert process.returncode == 130


def test_ray_data_waits_for_a_block_and_is_put_back() -> None:
    from ray.data import DataContext

    def settings() -> list[Any]:
        context = DataContext.get_current()
        waits = context.execution_no_progress_timeout_s
        return [context.target_max_block_size, context.custom_execution_callback_classes, waits]

    before = settings()
    with quiet_ray_data(1, str):
        assert settings() == [1, [*before[1], str], -1]
    assert settings() == before


def test_a_ray_that_does_not_start_in_time_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def slow(**_: Any) -> None:
        raise Exception("The current node timed out during startup. This could happen because ...")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", slow)
    with pytest.raises(RaynerError, match="did not start on this machine within 30 s; try again"):
        ensure_ray()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "http://127.0.0.1:8265",
            "is the address of a dashboard, not of a cluster; set RAY_ADDRESS=HOST:6379",
        ),
        ("host", "is no HOST:PORT"),
        ("bogus://host:6379", "cannot be "),
    ],
)
def test_an_address_that_ray_does_not_take_is_one_line(
    monkeypatch: pytest.MonkeyPatch, address: str, message: str
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=re.escape(f"RAY_ADDRESS={address}: {message}")):
        ensure_ray()


@pytest.mark.parametrize("by_ray_client", [False, True])
def test_a_cluster_that_cannot_be_joined_is_one_line(
    monkeypatch: pytest.MonkeyPatch, by_ray_client: bool
) -> None:
    import ray

    def other(**_: Any) -> None:
        why = RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n")
        if by_ray_client:
            raise ConnectionError("Failed to connect to Ray cluster") from why
        raise why

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", other)
    monkeypatch.setenv("RAY_ADDRESS", "ray://somewhere")
    with pytest.raises(InputError) as raised:
        ensure_ray()
    assert "\n" not in str(raised.value)
    assert "The cluster was started with: Ray: 2.1.0" in str(raised.value)
    assert "the cluster's versions of Ray and Python" in str(raised.value)


def test_an_address_where_nothing_answers_is_told_before_ray_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import ray

    def waits(**_: Any) -> None:
        assert "cannot be reached (Connection refused); start the cluster" in caplog.text
        raise ConnectionError("Ray gave up")

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", waits)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match="cannot be reached"):
        ensure_ray()


def test_sigterm_is_as_ctrl_c_once_ray_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def started(**_: Any) -> None:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", started)
    before = signal.getsignal(signal.SIGTERM)
    try:
        for address in ("", "ray://somewhere"):
            monkeypatch.setenv("RAY_ADDRESS", address)
            ensure_ray()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
