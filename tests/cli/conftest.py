"""The command in this process, and functions of the runtime replaced by others."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rayner
from rayner.cli import main
from rayner.runtime.reports import page

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert isinstance(exited.value.code, int)
        return exited.value.code, printed.out, printed.err

    return run


class _Clock:
    @staticmethod
    def now() -> datetime:
        return datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


@pytest.fixture
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are all written in the same minute, which they name: two of one run are then equal."""
    monkeypatch.setattr(page, "datetime", _Clock)


@pytest.fixture(scope="session")
def examples() -> Path:
    """The corpus and knowledge base of the quick start."""
    return Path(rayner.__file__).parent / "examples" / "software"


@pytest.fixture(scope="session")
def trained(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one epoch over the example corpus, with a small random encoder, by `rayner train`."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    corpus = f"[{examples / 'dev.jsonl'}]"
    settings = ("encoder=random:16x1", "training.epochs=1", f"corpus.train={corpus}", f"corpus.dev={corpus}")
    changes = [argument for setting in settings for argument in ("--set", setting)]
    with pytest.raises(SystemExit) as exited:
        main(["train", str(examples / "recipe.yaml"), *changes, "--out", str(folder), "--workers", "0"])
    assert exited.value.code == 0
    return folder


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Callable[..., Any]], None]:
    """Put a function in the place of the runtime's, so that a test is about the command alone.

    A call that the runtime's own function would not take is an error.
    """

    def put(module: str, name: str, function: Callable[..., Any]) -> None:
        place = importlib.import_module(f"rayner.runtime.{module}")
        signature = inspect.signature(getattr(place, name))

        def called(*arguments: Any, **options: Any) -> Any:
            signature.bind(*arguments, **options)
            return function(*arguments, **options)

        monkeypatch.setattr(place, name, called)

    return put
