"""The end of a service, and its file that is read again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import ray
from ray import serve

from rayner.errors import InputError, RaynerError
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


@dataclass(slots=True)
class Recorded(Served):
    """Of which the replicas refuse some settings."""

    refusing: Callable[[ServeSettings], str | None] = lambda _: None
    deployed: list[ServeSettings] = field(default_factory=list)

    def deploy(self, settings: ServeSettings, interrupted: object = None) -> bool:
        self.deployed.append(settings)
        self._asked_for = settings
        return True

    def _failed_change(self) -> str | None:
        return self.refusing(self.deployed[-1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "serve.yaml"
    file.write_text(f"checkpoint: {recognizer_folder(tmp_path / 'recognizer')}\nrevision: new", "utf-8")
    return file


def test_each_reading_of_a_file_makes_replicas_look_at_the_same_paths_again(path: Path) -> None:
    served = Recorded()
    for _ in range(2):
        _reload(served, path, lambda: False)
    assert [settings.revision for settings in served.deployed] == ["new (reading 1)", "new (reading 2)"]
    assert len({settings.checkpoint for settings in served.deployed}) == 1


@pytest.mark.parametrize("failed", [None, "RUN/best: is cut short"])
def test_a_file_whose_models_do_not_load_is_not_said_to_be_in_force(
    path: Path, caplog: pytest.LogCaptureFixture, failed: str | None
) -> None:
    with caplog.at_level(logging.INFO):
        _reload(Recorded(refusing=lambda _: failed), path, lambda: False)
    assert ("is in force" in caplog.text) == (failed is None)
    assert ("RUN/best: is cut short; what ran goes on" in caplog.text) == (failed is not None)


@pytest.mark.parametrize("apart", [False, True])
def test_what_does_not_load_is_not_left_to_replicas_that_start_later(path: Path, apart: bool) -> None:
    """With stages in other deployments, the settings before it are told as they were: no replica changes."""
    stages = {"stages": {"mentions": {}}} if apart else {}
    first, broken, right = (
        ServeSettings.model_validate({"checkpoint": "RUN", "revision": name, **stages})
        for name in ("first", "broken", "right")
    )
    served = Recorded(refusing=lambda settings: "is cut short" if settings == broken else None)
    assert served.change(first)
    for _ in range(2):
        with pytest.raises(RaynerError, match="is cut short"):
            served.change(broken)
    assert served.change(right)
    again = first if apart else first.model_copy(update={"refused": "is cut short"})
    assert served.deployed == [first, broken, again, broken, again, right]


def test_a_change_that_fails_before_serve_is_told_of_it_changes_nothing() -> None:
    first = ServeSettings.model_validate({"checkpoint": "RUN"})

    @dataclass(slots=True)
    class Full(Recorded):
        def deploy(self, settings: ServeSettings, interrupted: object = None) -> bool:
            if self.deployed:
                raise InputError("replicas", "need 4 CPUs, of 2")
            return Recorded.deploy(self, settings)

    served = Full()
    served.change(first)
    with pytest.raises(InputError, match="need 4 CPUs"):
        served.change(first.model_copy(update={"revision": "more"}))
    assert served.deployed == [first]
