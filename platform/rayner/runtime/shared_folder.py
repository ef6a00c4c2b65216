"""Whether the nodes that work in a folder see it: each would make one of its own there, and all be lost."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rayner.errors import InputError, first_line
from rayner.runtime.cluster import this_node
from rayner.runtime.elsewhere import waiting

_MARKER = ".shared-"

log = logging.getLogger(__name__)


class NotSharedError(InputError):
    """A folder that a node of the cluster does not see."""


@contextlib.contextmanager
def marker_file(out: Path) -> Iterator[Path]:
    """A new file in a locked folder of several nodes: a node without it does not see the folder."""
    for old in out.glob(f"{_MARKER}*"):
        old.unlink()
    marker = out / f"{_MARKER}{uuid.uuid4().hex}"
    marker.touch()
    try:
        yield marker
    finally:
        marker.unlink(missing_ok=True)


def check_visible(marker: Path) -> None:
    """Refuse to work on a node that does not see the folder.

    Raises:
        NotSharedError: it names the node.
    """
    import ray

    if not marker.exists():
        what = f"the node {ray.util.get_node_ip_address()} does not see this folder"
        hint = "name a folder on storage that all nodes share, or a URI"
        raise NotSharedError(f"--out {marker.parent}", what, hint)


def check_nodes(marker: Path) -> None:
    """Check each node that the cluster has by now; one that joins later is checked by the work on it.

    Raises:
        NotSharedError: it names the first node that does not see the folder.
        InputError: a node has not answered for `RAYNER_WAIT_SECONDS`.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    check: Any = ray.remote(num_cpus=0)(check_visible)
    others = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != this_node()]
    if not others:
        return
    checks = [
        check.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(marker)
        for node in others
    ]
    folder = marker.parent
    for pause in waiting(f"all nodes to look at {folder}", f"a node has not looked at {folder}"):
        if len(ray.wait(checks, num_returns=len(checks), timeout=pause)[0]) == len(checks):
            break
    for node, check in zip(others, checks, strict=True):
        try:
            ray.get(check)
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            # The work on it, if there will be any, looks again.
            log.warning("the node %s went while it looked at %s: %s", node, folder, first_line(error))
