"""What is said once in a process, and not again in those that another one tells so."""

from __future__ import annotations

import logging

import pytest

from rayner.data import warned_once
from rayner.data.warned_once import leave_unsaid, said, warn_once

log = logging.getLogger("rayner.test")


def test_the_same_is_said_once_and_what_another_process_said_not_at_all(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(warned_once, "_said", set())
    for message in ("2 rows cannot be read", "2 rows cannot be read", "3 rows cannot be read"):
        warn_once(log, message)
    told = said()
    monkeypatch.setattr(warned_once, "_said", set())
    leave_unsaid(told)
    for message in (*told, "4 rows cannot be read"):
        warn_once(log, message)
    assert [record.getMessage()[0] for record in caplog.records] == ["2", "3", "4"]
