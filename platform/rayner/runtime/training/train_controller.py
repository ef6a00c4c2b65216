"""Which process leads the workers of a run: a trial that is stopped ends them, and gives up their room.

Ray Tune ends the process of a trial, or it is lost, and Ray Train's controller dies with it. The placement
group of its workers then stays for as long as the job does: Ray removes one when both the job and the actor
that made it are gone. Its own `PlacementGroupCleaner` asks the State API whether the controller lives, and
removes nothing where that does not answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

from rayner.files.whole import write_json

CONTROLLER = "controller.json"

_started = 0
_controller: tuple[int, str] = (0, "")


def noting(out: Path) -> Any:
    """A callback of Ray Train that notes the controller's process and its workers' placement group."""
    from ray.train.v2._internal.execution.callback import WorkerGroupCallback

    class Notes(WorkerGroupCallback):
        def after_worker_group_start(self, worker_group: Any) -> None:
            """Called in the controller, whenever the workers have begun."""
            group = worker_group.get_worker_group_state().placement_group_handle.placement_group
            write_json(out / CONTROLLER, {"process": os.getpid(), "placement_group": group.id.hex()})

    return Notes()


def note_room(out: Path) -> None:
    """Note the placement group of this worker, and its controller if that is on this node, as `noting` does.

    What a worker has fetched takes the place of what the controller noted in the same folder; and what the
    first worker notes is put in place, and is there when the controller's machine is lost.
    """
    import ray
    from ray.util import get_current_placement_group

    group = get_current_placement_group()
    if group is not None:
        process, node = _controller
        here = node == ray.get_runtime_context().get_node_id()
        note = {"process": process if here else None, "placement_group": group.id.hex()}
        write_json(out / CONTROLLER, note)


def counting() -> Any:
    """A callback of Ray Train that counts how often the workers are started, and tells them, and who it is.

    A worker that Ray has lost may still run: it knows by a lower count that another one has replaced it.
    """
    import ray
    from ray.train.v2._internal.execution.callback import WorkerGroupCallback

    class Counts(WorkerGroupCallback):
        def __init__(self) -> None:
            self.started = 0

        def after_worker_group_start(self, worker_group: Any) -> None:
            """Called in the controller, before each worker of a group begins."""
            self.started += 1
            here = (os.getpid(), ray.get_runtime_context().get_node_id())
            worker_group.execute(_note_started, self.started, here)

    return Counts()


def _note_started(count: int, controller: tuple[int, str]) -> None:
    global _started, _controller
    _started, _controller = count, controller


def times_started() -> int:
    """How often the workers have been started, this one among the last; 0 if nobody counts."""
    return _started


def forget(out: Path) -> None:
    """The run is over, and its workers have given up their room."""
    (out / CONTROLLER).unlink(missing_ok=True)


def end_workers(out: Path) -> None:
    """End the controller of a run, on this node, and remove its workers' placement group, if there is one."""
    noted = _noted(out)
    if noted is None:
        return
    # First the controller: it would start the workers again.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        if noted["process"] and _is_controller(noted["process"]):
            os.kill(noted["process"], signal.SIGKILL)
    give_up_room(out)


def give_up_room(out: Path) -> None:
    """Remove the placement group of workers whose controller was lost, if there is one: who goes on with the
    run would wait for its room. The process with the controller's number may by now be any other."""
    from ray._raylet import PlacementGroupID
    from ray.util import remove_placement_group
    from ray.util.placement_group import PlacementGroup

    if (noted := _noted(out)) is not None:
        remove_placement_group(PlacementGroup(PlacementGroupID(bytes.fromhex(noted["placement_group"]))))
        forget(out)


def _noted(out: Path) -> dict[str, Any] | None:
    try:
        return json.loads((out / CONTROLLER).read_text("utf-8"))
    except FileNotFoundError:
        return None


def _is_controller(process: int) -> bool:
    """Whether it still is one: a killed launch leaves a note, and its number goes to another process."""
    return b"TrainController" in Path(f"/proc/{process}/cmdline").read_bytes()
