"""The end of a service, and its file that is read again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import ray
from ray import serve

from rayner.serving import launch
from rayner.serving.application_settings import ServeSettings
from rayner.serving.launch import Served, _reload
from tests.serving.checkpoints import recognizer_folder


def test_an_application_that_does_not_go_keeps_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def delete(name: str) -> None:
        raise TimeoutError(name)

    ended: list[str] = []
    monkeypatch.setattr(serve, "delete", delete)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append("ray"))
    Served("mine", _started=True, _own_ray=True).stop()
    assert ended == ["ray"]
    assert "has not removed the application mine" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("checkpoint: [", "not valid YAML"),
        ("checkpoint: nowhere", "does not exist"),
        (f"checkpoint: {'x' * 5000}", "File name too long"),
    ],
)
def test_whatever_is_wrong_with_a_file_that_is_read_again_ends_no_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, message: str
) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text(text, "utf-8")
    _reload(Served(), path, lambda: False)
    assert message in caplog.text
    assert "what ran goes on" in caplog.text


class Recorded(Served):
    def __init__(self) -> None:
        super().__init__()
        self.deployed: list[ServeSettings] = []

    def deploy(self, settings: ServeSettings, interrupted: object = None) -> bool:
        self.deployed.append(settings)
        return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "serve.yaml"
    file.write_text(f"checkpoint: {recognizer_folder(tmp_path / 'recognizer')}\nrevision: new", "utf-8")
    return file


def test_each_reading_of_a_file_makes_replicas_look_at_the_same_paths_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "failed_change_of", lambda _: None)
    served = Recorded()
    for _ in range(2):
        _reload(served, path, lambda: False)
    assert [settings.revision for settings in served.deployed] == ["new (reading 1)", "new (reading 2)"]
    assert len({settings.checkpoint for settings in served.deployed}) == 1


@pytest.mark.parametrize("failed", [None, "RUN/best: is cut short"])
def test_a_file_whose_models_do_not_load_is_not_said_to_be_in_force(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failed: str | None
) -> None:
    monkeypatch.setattr(launch, "failed_change_of", lambda _: failed)
    with caplog.at_level(logging.INFO):
        _reload(Recorded(), path, lambda: False)
    assert ("is in force" in caplog.text) == (failed is None)
    assert ("RUN/best: is cut short; what ran goes on" in caplog.text) == (failed is not None)
