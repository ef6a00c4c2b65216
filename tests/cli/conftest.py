"""The command in this process, and functions of the runtime replaced by others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rayner.cli import main

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


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Callable[..., Any]], None]:
    """Put a function in the place of the runtime's, so that a test is about the command alone."""

    def put(module: str, name: str, function: Callable[..., Any]) -> None:
        monkeypatch.setitem(sys.modules, f"rayner.runtime.{module}", SimpleNamespace(**{name: function}))

    return put
