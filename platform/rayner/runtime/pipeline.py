"""Work in parts: the same work over many parts, in this process or as a Ray Data pipeline."""

from __future__ import annotations

import hashlib
import itertools
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from rayner.errors import RaynerError
from rayner.runtime.cluster import ensure_ray

Part = TypeVar("Part")
Result = TypeVar("Result")

PARTS_PER_WAVE = 512
"""Parts in memory at once: what lies in Ray's object store is bounded by the wave, not by the corpus."""


def each(work: Callable[[Part], Result], parts: Iterable[Part], workers: int) -> Iterator[Result]:
    """The result of every part, in the order in which parts get done.

    With no workers this is a plain loop. With `workers`, at most that many parts are worked on at once, each
    a Ray task; a task whose process dies is run again. Parts, results and `work` must pickle.

    Raises:
        RaynerError: as `work` raised it.
    """
    if not workers:
        yield from map(work, parts)
        return
    ensure_ray()
    waves = iter(parts)
    while wave := list(itertools.islice(waves, PARTS_PER_WAVE)):
        for result in _in_parallel(work, wave, workers):
            if isinstance(result, RaynerError):
                raise result
            yield result


def cluster_cpus() -> int:
    """The CPUs of this process's cluster; starts one where there is none."""
    import ray

    ensure_ray()
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def code_digest(*folders: str) -> str:
    """A hash of the modules in these folders of the package: what other code made is not taken up again."""
    package = Path(__file__).parents[1]
    sources = sorted(path for folder in folders for path in package.glob(f"{folder}/*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _in_parallel(work: Callable[[Part], Result], parts: list[Part], workers: int) -> Iterator[Any]:
    import ray
    from ray import cloudpickle

    dumps = cloudpickle.dumps  # pyright: ignore[reportPrivateImportUsage]
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    shared = ray.put(dumps(work))

    def run(row: dict[str, bytes]) -> dict[str, bytes]:
        function = pickle.loads(ray.get(shared))
        try:
            result = function(pickle.loads(row["part"]))
        except RaynerError as error:
            result = error
        return {"result": dumps(result)}

    # One block a part: a block is what Ray Data schedules, retries and hands on.
    rows = [{"part": dumps(part)} for part in parts]
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows))
    pool = ray.data.TaskPoolStrategy(size=min(workers, len(rows)))
    dataset = dataset.map(run, compute=pool, num_cpus=1)
    for row in dataset.iter_rows():
        yield pickle.loads(row["result"])
