"""The end of a service."""

from __future__ import annotations

import pytest
import ray
from ray import serve

from rayner.serving.launch import Served


def test_an_application_that_does_not_go_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def delete(name: str) -> None:
        raise TimeoutError(name)

    ended: list[str] = []
    monkeypatch.setattr(serve, "delete", delete)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(serve, "shutdown", lambda: ended.append("serve"))
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append("ray"))
    Served("mine", _started=True, _own_ray=True).stop()
    assert ended == ["serve", "ray"]
    assert "has not removed the application mine" in caplog.text
