"""The folder of a sweep: writable, seen by all nodes, and of one sweep only."""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rayner.errors import InputError
from rayner.runtime.locks import locked
from rayner.runtime.sweeps.corpora import FOLDER as CORPORA
from rayner.runtime.sweeps.trials import SWEEP, TRIALS, write_json

FREE_KEYS = (
    *("recipe.scaling.", "recipe.tracking."),
    *("settings.trials", "settings.workers", "settings.at_once", "settings.retries"),
)
"""What may change between two launches of a sweep, but for trials that are compared with all others."""


@contextlib.contextmanager
def sweep_folder(out: Path, fresh: bool, nature: Mapping[str, Any]) -> Iterator[None]:
    """Hold the folder of a sweep, which can be written, after checking that it is this one's.

    Args:
        nature: what the sweep is, as plain values; kept in `sweep.json`.

    Raises:
        InputError: another process works there, or it holds another sweep.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(out / ".lock", wait=False))
        except BlockingIOError:
            what, cure = "another sweep runs in this folder", "wait for it, or name another --out"
            raise InputError(str(out), what, cure) from None
        if fresh:
            _clear(out)
        elif (out / SWEEP).exists() and not any((out / TRIALS).glob("*")):
            # Refused, or stopped, before its first trial: that binds nobody. Example sets are kept.
            _remove(out, (SWEEP, CORPORA, "ray"))
        _check_nature(out, nature)
        write_json(out / SWEEP, nature)
        yield


def check_writable(out: Path) -> None:
    """Make the folder of a sweep.

    Raises:
        InputError: it is no folder, or cannot be written.
    """
    if ":/" in str(out):
        cure = "mount the storage, and name the folder that all nodes see"
        raise InputError(f"--out {out}", "is no folder", cure)
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".probe-{uuid.uuid4().hex}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(f"--out {out}", what, "name a folder that you may write to") from None


def check_shared(out: Path) -> None:
    """Refuse a folder that a node of the cluster does not see.

    Raises:
        InputError: it names the node.
    """
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    if len(nodes) < 2:
        return
    probe = out / f".probe-{uuid.uuid4().hex}"
    probe.touch()
    try:
        blind = nodes_without(probe, nodes)
    finally:
        probe.unlink(missing_ok=True)
    if blind:
        cure = "name a folder on storage that all nodes share"
        raise InputError(f"--out {out}", f"the node {blind[0]} does not see this folder", cure)


def nodes_without(path: Path, nodes: list[dict[str, Any]]) -> list[str]:
    """The addresses of those nodes on which a path does not exist."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def sees(name: str) -> bool:
        return Path(name).exists()

    look = ray.remote(num_cpus=0)(sees)
    asked = [
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            str(path)
        )
        for node in nodes
    ]
    return [node["NodeManagerAddress"] for node, seen in zip(nodes, ray.get(asked), strict=True) if not seen]


def _check_nature(out: Path, nature: Mapping[str, Any]) -> None:
    if not (out / SWEEP).exists():
        return
    before, now = dict(_flat(json.loads((out / SWEEP).read_text(encoding="utf-8")))), dict(_flat(nature))
    together = now["settings.scheduler"] == '"halving"'
    free = tuple(key for key in FREE_KEYS if not (together and key == "settings.trials"))
    changed = sorted(
        key
        for key in before.keys() | now.keys()
        if before.get(key) != now.get(key) and not key.startswith(free)
    )
    if changed:
        what = f"holds a sweep of something else; changed: {', '.join(changed[:8])}"
        raise InputError(str(out), what, "start over with --fresh, or name another --out")


def _clear(out: Path) -> None:
    """Remove what a sweep writes, and nothing else that may lie in the folder."""
    folders = (TRIALS, CORPORA, "ray", "tensorboard", "winner", ".examples")
    _remove(out, (*folders, SWEEP, "best.yaml", "result.json", "report.html", "mlflow_run"))


def _remove(out: Path, names: Iterable[str]) -> None:
    for path in (out / name for name in names):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _flat(values: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, json.dumps(values, sort_keys=True)
