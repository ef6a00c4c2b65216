"""Work on actors without a process a worker: what goes there and comes back is pickled, as Ray does.

The actors themselves are tested in tests/runtime/test_actors.py; each of them imports torch for seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ray import cloudpickle


def each_pickled(
    load: Callable[[], Callable[[Any], Any]],
    parts: Iterable[Any],
    workers: int,
    needs: Any,
    held: Iterable[Path] = (),
    device: str | None = None,
) -> Iterator[Any]:
    """In place of `each_on_actors`."""
    assert workers
    assert needs.options()
    assert all(folder.is_dir() for folder in held)
    work = _sent(load)()
    for part in parts:
        yield _sent(work(_sent(part)))


def _sent(value: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(value))  # pyright: ignore[reportPrivateImportUsage]
