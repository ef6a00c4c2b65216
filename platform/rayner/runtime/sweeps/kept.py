"""Ray Tune's state of a population, of which one whole copy is kept at all times.

Ray Tune copies its state over the one before, file by file, every ten seconds or more: a kill in between cuts
it short.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from ray.tune import Callback

_STATE = "experiment_state-*.json"
TUNER = "tuner.pkl"
_PARTIAL = ".partial"


class KeepState(Callback):
    """Keeps each state that Ray Tune writes, in a folder that appears whole.

    Args:
        kept: where; the copy there is that of the last state.
    """

    def __init__(self, kept: Path) -> None:
        self._kept = kept

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Keep the state, where it is a new one; only this thread writes it, so that it is whole now."""
        if trials:
            storage = trials[0].storage
            written, tuner = Path(storage.experiment_driver_staging_path), Path(storage.experiment_fs_path)
            keep_state(written, tuner / TUNER, self._kept)


def keep_state(written: Path, tuner: Path, kept: Path) -> None:
    """Copy a state into a folder of its own below `kept` and remove what was kept before.

    Args:
        written: the folder on the driver's machine that Ray Tune copies from.
        tuner: the pickled tuner, which lies beside the checkpoints; it is taken once, as it never changes.
    """
    state = max(written.glob(_STATE), default=None)
    if state is None:
        return
    target = kept / str(state.stat().st_mtime_ns)
    if target.exists():
        return
    before = last_state(kept)
    partial = kept / _PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for file in (*written.glob("*.json"), *written.glob("*.pkl")):
        shutil.copy2(file, partial)
    shutil.copy2(before / TUNER if before else tuner, partial / TUNER)
    os.replace(partial, target)
    for old in kept.iterdir():
        if old != target:
            shutil.rmtree(old)


def last_state(kept: Path) -> Path | None:
    """The folder with the state that was kept last; None where there is none."""
    whole = [folder for folder in kept.glob("*") if folder.name.isdigit()]
    return max(whole, key=lambda folder: int(folder.name), default=None)


def bring_back(kept: Path, folder: Path) -> bool:
    """Put the state that was kept last where Ray Tune looks for it; False where none was kept."""
    state = last_state(kept)
    if state is None:
        return False
    for cut in folder.glob(_STATE):
        cut.unlink()
    shutil.copytree(state, folder, dirs_exist_ok=True)
    return True
