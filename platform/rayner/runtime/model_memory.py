"""How much memory a process takes that holds models and indexes, so that Ray places no more than fit a node.

The estimate is half a GiB for the process with its libraries, and one and a half times the files of its
checkpoints and of the last version of its indexes: weights, an index's pages, what is computed from them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rayner.errors import IndexFolderError
from rayner.files.fetching import local
from rayner.retrieval.index_folder import last_version
from rayner.runtime.elsewhere import Needs
from rayner.tasks.stage_settings import StageSettings

PROCESS = 1 << 29
OF_FILES = 1.5

log = logging.getLogger(__name__)


def memory_of(held: Iterable[Path]) -> int:
    """Bytes of a process that holds what lies in files and folders, each of them once."""
    return PROCESS + int(OF_FILES * sum(map(_size, {local(path) for path in held})))


def held_by(stages: Sequence[StageSettings]) -> list[Path]:
    """The checkpoints and indexes of stages."""
    contexts = [Path(c.ranker) for stage in stages if (c := stage.context) is not None and c.ranker]
    options = [getattr(stage.options, name) for stage in stages for name in stage.options.paths()]
    return [*(stage.checkpoint for stage in stages), *options, *contexts]


def placed_by_memory(needs: Needs, estimate: int, times: int = 1) -> Needs:
    """The needs with an estimate of memory, if they name none and the nodes have so much.

    Else they stay as they are, and the log says so: an estimate must not keep work from beginning.

    Args:
        times: how many of them must have room at once.
    """
    import ray

    if needs.memory is not None:
        return needs
    asked = replace(needs, memory=estimate)
    nodes = ray.nodes()
    if room_by_memory(asked, nodes) >= times:
        return asked
    if not room_by_memory(replace(needs, memory=1), nodes):
        # It is no memory that they lack: who waits for a place is told what.
        return needs
    each = f"{times} x {estimate / 2**30:.1f}" if times > 1 else f"{estimate / 2**30:.1f}"
    log.warning(
        "the nodes lack the estimated %s GiB of memory: Ray places the work without regard to it", each
    )
    return needs


def room_by_memory(needs: Needs, nodes: Iterable[Mapping[str, Any]]) -> int:
    """How many with these needs the nodes could hold by memory, if they were empty."""
    assert needs.memory is not None
    found = 0
    for node in nodes:
        has = node["Resources"] if node["Alive"] else {}
        # A head that is there for no work, or a node without a GPU, takes none of them.
        if has.get("CPU", 0) >= (1 if needs.cpus is None else needs.cpus) and has.get("GPU", 0) >= needs.gpus:
            found += int(has.get("memory", 0) // needs.memory)
    return found


def _size(path: Path) -> int:
    with contextlib.suppress(IndexFolderError):
        path = last_version(path)
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())
