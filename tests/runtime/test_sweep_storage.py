"""The folder of a sweep, and whom it binds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayner.errors import InputError
from rayner.runtime.sweeps.storage import sweep_folder


def _nature(epochs: int) -> dict[str, Any]:
    return {"recipe": {"training": {"epochs": epochs}}, "settings": {"scheduler": "asha"}}


def test_a_sweep_that_was_refused_before_its_first_trial_binds_nobody(tmp_path: Path) -> None:
    with sweep_folder(tmp_path, False, _nature(1)):
        (tmp_path / "corpora").mkdir()
        (tmp_path / ".examples").mkdir()
    with sweep_folder(tmp_path, False, _nature(2)):
        assert not (tmp_path / "corpora").exists()
        assert (tmp_path / ".examples").exists()
        (tmp_path / "trials" / "a").mkdir(parents=True)
    with (
        pytest.raises(InputError, match=r"changed: recipe\.training\.epochs; start over with --fresh"),
        sweep_folder(tmp_path, False, _nature(1)),
    ):
        pass
    with sweep_folder(tmp_path, True, _nature(1)):
        assert not (tmp_path / "trials").exists()


def test_a_folder_without_a_sweep_keeps_what_lies_in_it(tmp_path: Path) -> None:
    (tmp_path / "corpora").mkdir()
    (tmp_path / "corpora" / "mine.txt").write_text("Ada")
    with sweep_folder(tmp_path, False, _nature(1)):
        pass
    assert (tmp_path / "corpora" / "mine.txt").exists()
