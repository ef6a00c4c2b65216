"""Predictors that are kept over requests, so that type vectors are computed once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from rayner.tasks.base import Predictor
from rayner.tasks.checkpoint import Checkpoint
from rayner.tasks.predictor_options import Options

K = TypeVar("K")
"""Hashable."""
AnyPredictor = Predictor[Any, Any, Any, Any]


@runtime_checkable
class Adjustable(Protocol):
    """A predictor whose types cost something to prepare, so that serving keeps them over requests."""

    def adjusted(self, options: Any) -> Any:
        """A predictor of the same types, with the options' shift and overlap."""
        ...


class PredictorCache(Generic[K]):
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
                self.keep(key, found)
            return found

    def keep(self, key: K, predictor: AnyPredictor) -> None:
        """Keep a predictor that is there already."""
        with self._looking:
            self._of[key] = predictor
            while len(self._of) > self._size:
                self._of.popitem(last=False)


def stage_predictors(
    loaded: Checkpoint, type_sets: int, options: Options, predictor: AnyPredictor
) -> PredictorCache[Options]:
    """Predictors of a stage by options: those of the same types share their vectors, where a predictor can
    be adjusted.

    Args:
        predictor: that of `options`, which is there already.
    """
    of_types = PredictorCache[Options](loaded.predictor, type_sets)

    def make(options: Options) -> AnyPredictor:
        bare = loaded.record.options.of({"types": options.asked_types}, loaded.recipe.task)
        if not isinstance(predictor, Adjustable):
            return of_types.make(options)
        base = of_types.make(bare)
        return base.adjusted(options) if options != bare and isinstance(base, Adjustable) else base

    kept = PredictorCache(make, type_sets)
    kept.keep(options, predictor)
    if options == loaded.record.options():
        of_types.keep(options, predictor)
    return kept
