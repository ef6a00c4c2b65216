"""Work over many parts by a `ParallelMap`, which gives results as they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rayner.tasks.base import ParallelMap


def in_order_of_parts(mapper: ParallelMap, work: Callable[[Any], Any], parts: Sequence[Any]) -> list[Any]:
    """The result of every part, in the order of the parts."""
    found: dict[int, Any] = dict(mapper(partial(numbered, work), list(enumerate(parts))))
    return [found[number] for number in range(len(parts))]


def numbered(work: Callable[[Any], Any], given: tuple[int, Any]) -> tuple[int, Any]:
    """The result of a part with the part's number, as results come in any order."""
    number, part = given
    return number, work(part)
