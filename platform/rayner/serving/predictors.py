"""Predictors that are kept over requests, so that type vectors are computed once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from rayner.tasks.base import DEFAULTS, Adjustable, Options, Predictor
from rayner.tasks.checkpoint import Loaded

K = TypeVar("K", bound=Hashable)
AnyPredictor = Predictor[Any, Any, Any, Any]


class Kept(Generic[K]):
    """The predictors that were asked for last. Safe for several threads; made one at a time."""

    def __init__(self, make: Callable[[K], AnyPredictor], size: int) -> None:
        self._make = make
        self._size = size
        self._of: OrderedDict[K, AnyPredictor] = OrderedDict()
        self._making, self._looking = threading.Lock(), threading.Lock()

    def get(self, key: K) -> AnyPredictor | None:
        """The predictor, if it is kept."""
        with self._looking:
            if key in self._of:
                self._of.move_to_end(key)
            return self._of.get(key)

    def make(self, key: K) -> AnyPredictor:
        """The predictor, made now unless it is kept. May take a while.

        Raises:
            InputError: the task cannot do what the key asks for.
        """
        with self._making:
            found = self.get(key)
            if found is None:
                found = self._make(key)
                with self._looking:
                    self._of[key] = found
                    while len(self._of) > self._size:
                        self._of.popitem(last=False)
            return found


def recognizer_predictors(loaded: Loaded, type_sets: int) -> Kept[Options]:
    """Predictors of a recognizer by options: those of the same types share their vectors."""
    of_types = Kept[Options](lambda options: loaded.task.predictor(loaded.model, options), type_sets)

    def make(options: Options) -> AnyPredictor:
        bare = Options(types=options.types)
        if options == bare:
            return of_types.make(bare)
        base = of_types.make(bare)
        if isinstance(base, Adjustable):
            return base.adjusted(options)
        return loaded.task.predictor(loaded.model, options)

    kept = Kept(make, 4 * type_sets)
    kept.make(DEFAULTS)
    return kept
