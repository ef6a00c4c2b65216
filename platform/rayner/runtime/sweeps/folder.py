"""The folder of a sweep: it can be written, and it holds one sweep."""

from __future__ import annotations

import itertools
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayner.errors import InputError
from rayner.files.objects import Objects
from rayner.files.publishing import Publication
from rayner.files.run_checkpoints import SWEEP
from rayner.files.whole import write_json
from rayner.runtime.run_folder import REPORT, check_no_training, check_out, check_own, has_sweep
from rayner.runtime.sweeps.corpora import FOLDER as CORPORA
from rayner.runtime.sweeps.plan import TRIALS, read_config

BEGUN = "begun"
DATA = "data"
SPENT = "seconds"
FREE_KEYS = (
    *(BEGUN, DATA, SPENT, "fixed"),
    *("recipe.scaling", "recipe.tracking"),
    *("settings.trials", "settings.workers", "settings.max_concurrent", "settings.max_failures"),
)
"""What may change when a sweep is resumed; with halving not the number of trials. Which keys are fixed
changes only with the space."""
RAY = "ray"
"""Where Ray Tune leaves its own files."""
_FOLDERS = (TRIALS, CORPORA, RAY, "tensorboard", "winner")
_FILES = ("best.yaml", "result.json", REPORT, "mlflow_run", SWEEP)
OWN = (*_FOLDERS, *_FILES)
"""What a sweep writes for itself."""
WRITTEN = (*_FOLDERS, ".examples", *_FILES)
"""What a sweep writes, its mark last; the example sets are hidden."""


def claim_folder(out: Path, fresh: bool, config: Mapping[str, Any]) -> str:
    """Make a folder that is locked the folder of this sweep.

    Args:
        config: what the sweep is, as plain values; kept in `sweep.json`.

    Returns:
        What tells this sweep from any other that was begun in the folder, for as long as it is resumed.

    Raises:
        InputError: it holds another sweep, or the run of a training.
    """
    check_no_training(out)
    if fresh:
        _clear(out)
    elif (out / SWEEP).exists() and not any((out / TRIALS).glob("*")):
        # Refused, or stopped, before its first trial: any sweep may have the folder. Example sets are kept.
        _remove(out, (CORPORA, RAY, SWEEP))
    _check_config(out, config)
    before = read_config(out) if (out / SWEEP).exists() else {}
    begun = before.get(BEGUN) or uuid.uuid4().hex
    kept = {key: before[key] for key in (DATA, SPENT) if key in before}
    write_json(out / SWEEP, {**config, **kept, BEGUN: begun})
    return begun


def check_data(out: Path, found: Sequence[str]) -> None:
    """Refuse to hold trials on other data against those so far.

    Args:
        found: what tells the data of each fold from any other.

    Raises:
        InputError: the sweep began with other data.
    """
    config = read_config(out)
    if config.setdefault(DATA, list(found)) != list(found):
        what = "its trials so far learned or were judged by other data: files have changed, or rayner has"
        raise InputError(str(out), what, "restore them, start over with --fresh, or name another --out")
    write_json(out / SWEEP, config)


def add_seconds(out: Path, seconds: float) -> float:
    """Add those of a launch to those of earlier ones of the sweep in a folder; the sum.

    Raises:
        InputError: its file is damaged.
    """
    config = read_config(out)
    config[SPENT] = round(config.get(SPENT, 0) + seconds, 1)
    write_json(out / SWEEP, config)
    return config[SPENT]


def remove_parts(uri: str, begun: str) -> None:
    """Remove what earlier sweeps at a URI have put in place beside their own files: trials, corpora, winners.

    Args:
        begun: the sweep whose corpora stay.

    Raises:
        InputError, StorageError: the storage cannot be used.
    """
    objects = Objects(uri, worked=True)
    names = [name.split("/") for folder in (TRIALS, CORPORA) for name in objects.names(folder)]
    parts = {"/".join(name[:2]) for name in names} - {f"{CORPORA}/{begun}"}
    for part in (*sorted(parts), "winner"):
        Publication(f"{uri}/{part}").amend(lambda name: True)


def check_own_sweep(out: Path) -> None:
    """Refuse a folder in which a sweep would write over, or remove, files of somebody else.

    Raises:
        InputError: it holds such files.
    """
    check_own(out, ([SWEEP],) if has_sweep(out) else (), OWN)


def make_writable(out: Path) -> None:
    """Make the folder of a sweep.

    Raises:
        InputError: it is no folder, or cannot be written.
    """
    try:
        check_out(out)
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".probe-{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(f"--out {out}", what, "name a folder that you may write to") from None


def _check_config(out: Path, config: Mapping[str, Any]) -> None:
    if not (out / SWEEP).exists():
        return
    before, now = dict(_flat(read_config(out))), dict(_flat(config))
    # Its trials are compared with all others.
    halving = now["settings.scheduler"] == '"halving"'
    free = {key for key in FREE_KEYS if not (halving and key == "settings.trials")}
    # What the space searches has no effect in the recipe.
    free |= {f"recipe.{key}" for key in config.get("space", {}) if f"recipe.{key}" in now}
    changed = sorted(
        key
        for key in before.keys() | now.keys()
        if before.get(key) != now.get(key) and not free.intersection(_and_above(key))
    )
    if changed:
        what = f"holds another sweep; changed: {', '.join(changed[:8])}"
        raise InputError(str(out), what, "start over with --fresh, or name another --out")


def _clear(out: Path) -> None:
    """Remove what a sweep writes, and nothing else that may lie in the folder."""
    _remove(out, WRITTEN)


def _remove(out: Path, names: Iterable[str]) -> None:
    for path in (out / name for name in names):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _and_above(key: str) -> Iterator[str]:
    """A key with dots, and the sections that it lies in."""
    return itertools.accumulate(key.split("."), "{}.{}".format)


def _flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, json.dumps(values, sort_keys=True)
