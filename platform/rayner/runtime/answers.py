"""What a predictor answers, in this process or on actors that load the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from rayner.runtime.actors import each_on_actors
from rayner.runtime.elsewhere import Needs
from rayner.tasks.base import Predictor
from rayner.tasks.predict import has_spare_core, predict

PART = 64
"""Items that an actor is given at once."""


def answers_here(predictor: Predictor[Any, Any, Any, Any], items: Iterable[Any]) -> Iterator[Any]:
    """The answer to every item, in order."""
    with torch.no_grad():
        yield from predict(predictor, items, ahead=has_spare_core())


def answers_of_actors(
    load: Callable[[], Predictor[Any, Any, Any, Any]],
    items: Iterable[Any],
    workers: int,
    needs: Needs,
    held: Iterable[Path],
    device: str | None = None,
) -> Iterator[Any]:
    """As `answers_here`, by what each of the actors loads; the arguments are those of `each_on_actors`."""
    given = iter(items)
    parts = iter(lambda: list(islice(given, PART)), [])
    for part in each_on_actors(partial(_answering, load), parts, workers, needs, held, device):
        yield from part


def _answering(load: Callable[[], Any]) -> Callable[[Sequence[Any]], list[Any]]:
    predictor = load()
    return lambda items: list(answers_here(predictor, items))
