"""Lines of long work: where steps pass, and where one takes long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from rayner.runtime import progress


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().rpartition(",")[0] for record in caplog.records]


def until(wanted: str, caplog: pytest.LogCaptureFixture) -> None:
    """Wait for a line; the time-out of the test is the limit."""
    while wanted not in lines(caplog):
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.02)
    caplog.set_level(logging.INFO, logger=progress.__name__)


def test_a_line_says_how_many_steps_have_passed(caplog: pytest.LogCaptureFixture) -> None:
    seen = []
    for step in progress.track("abc", 3, "reading"):
        seen.append(step)
        until(f"reading: {len(seen) - 1} of 3", caplog)
    assert seen == ["a", "b", "c"]


def test_one_long_step_is_told_to_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def slow() -> Iterator[int]:
        while lines(caplog).count("resolving: 0 of 1") < 2:
            time.sleep(0.01)
        yield 1

    assert list(progress.track(slow(), 1, "resolving")) == [1]


def test_work_that_is_given_up_is_told_no_more(caplog: pytest.LogCaptureFixture) -> None:
    steps = progress.track(range(2), 2, "reading")
    next(steps)
    (teller,) = [thread for thread in threading.enumerate() if thread.name == "progress"]
    steps.close()  # type: ignore[attr-defined]
    teller.join()
    told = len(caplog.records)
    time.sleep(0.05)
    assert len(caplog.records) == told
