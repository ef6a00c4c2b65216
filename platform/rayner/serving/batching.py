"""Windows of many requests in shared batches, bounded by tokens."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from rayner.data.batches import forwards
from rayner.errors import one_line
from rayner.serving.metrics import Meter
from rayner.serving.predictors import AnyPredictor
from rayner.serving.problems import TooLarge
from rayner.tasks.document_windows import Found

T = TypeVar("T")

BATCHES_PER_ROUND = 2
"""How many batches are sorted by length together: padding against the delay of who comes next."""


@dataclass(eq=False, slots=True)
class _Request:
    predictor: AnyPredictor
    windows: Sequence[Any]
    lengths: np.ndarray
    done: asyncio.Future[list[Any]]
    scores: list[Any] = field(default_factory=list)
    most_found: int | None = None
    taken: int = 0
    missing: int = 0
    found: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """Windows `begin` to `end` of a request."""

    request: _Request
    begin: int
    end: int


class TokenBatcher:
    """Runs a model in one thread, on as many waiting windows as fit its budget, and never waits for more.

    While the model works, requests gather; when it is free, it takes what is there, the oldest request first.
    A request that has more windows than a round holds goes to the end of the line after each round, so that
    a book does not keep sentences waiting. Requests share batches if they share a predictor.

    Args:
        tokens: padded tokens a batch.
        meter: where batches are counted.
    """

    def __init__(self, tokens: int, meter: Meter) -> None:
        self._tokens = tokens
        self._meter = meter
        self._waiting: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._worker: asyncio.Task[None] | None = None
        self._busy_since: float | None = None

    async def scores(
        self, predictor: AnyPredictor, windows: Sequence[Any], most_found: int | None = None
    ) -> list[Any]:
        """What the predictor says of each window.

        Args:
            most_found: at most so many spans, of what finds such.

        Raises:
            TooLarge: there are more; the rest was not read.
        """
        if not windows:
            return []
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        lengths = np.array([predictor.length_of(window) for window in windows])
        done = asyncio.get_running_loop().create_future()
        request = _Request(predictor, windows, lengths, done, most_found=most_found)
        request.scores = [None] * len(windows)
        request.missing = len(windows)
        self._waiting.append(request)
        self._arrived.set()
        return await request.done

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in the model's thread, between two batches."""

        def timed() -> T:
            self._busy_since = time.monotonic()
            try:
                return function()
            except Exception:
                raise
            except BaseException as error:
                # A panic of Rust: nobody would answer the requests.
                raise RuntimeError(one_line(error)) from error
            finally:
                self._busy_since = None

        return await asyncio.get_running_loop().run_in_executor(self._thread, timed)

    def busy_for(self) -> float:
        """Seconds since what the model's thread works on began; 0 where it works on nothing."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    async def close(self) -> None:
        """Stop the thread and the task."""
        if self._worker is not None:
            self._worker.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            parts = self._round()
            if not parts:
                self._arrived.clear()
                # Those that waited may all have given up.
                self._meter.waiting(0)
                continue
            flat = [(part.request, i) for part in parts for i in range(part.begin, part.end)]
            lengths = np.array([request.lengths[i] for request, i in flat])
            cost = parts[0].request.predictor.forward_cost
            for batch in forwards(np.arange(len(flat)), lengths, self._tokens, cost):
                await self._forward([flat[i] for i in batch])
                self._meter.batch(
                    len(batch), int(lengths[batch].sum()), int(lengths[batch].max()) * len(batch)
                )
            self._meter.waiting(sum(len(r.windows) - r.taken for r in self._waiting))

    def _round(self) -> list[_Part]:
        """What goes next: whole requests as long as they fit, at least a part of the first."""
        room = BATCHES_PER_ROUND * self._tokens
        parts: list[_Part] = []
        unfinished: list[_Request] = []
        passed: deque[_Request] = deque()
        while self._waiting:
            request = self._waiting.popleft()
            if request.done.done():
                continue
            if parts and (room <= 0 or request.predictor is not parts[0].request.predictor):
                passed.append(request)
                continue
            costs = np.cumsum(request.lengths[request.taken :])
            count = int(np.searchsorted(costs, room, side="right"))
            if count < len(costs) and parts:
                passed.append(request)
                room = 0
                continue
            count = max(count, 1)
            parts.append(_Part(request, request.taken, request.taken + count))
            request.taken += count
            room -= int(costs[count - 1])
            if request.taken < len(request.windows):
                unfinished.append(request)
        self._waiting = passed
        self._waiting.extend(unfinished)
        return parts

    async def _forward(self, batch: Sequence[tuple[_Request, int]]) -> None:
        batch = [(request, i) for request, i in batch if not request.done.done()]
        if not batch:
            return
        predictor = batch[0][0].predictor
        windows = [request.windows[i] for request, i in batch]
        try:
            scores = await self.run(lambda: predictor.forward(windows))
        except Exception as error:
            await self._one_by_one(batch, error)
            return
        for (request, i), score in zip(batch, scores, strict=True):
            request.scores[i] = score
            request.missing -= 1
            request.found += _spans_in(score)
            if request.found > (request.most_found or math.inf) and not request.done.done():
                what = f"more than {request.most_found:,} spans in them are above their thresholds"
                hint = "raise `shift`, or send fewer or shorter texts"
                request.done.set_exception(TooLarge("documents", what, hint))
            if not request.missing and not request.done.done():
                request.done.set_result(request.scores)

    async def _one_by_one(self, batch: Sequence[tuple[_Request, int]], error: Exception) -> None:
        """After a failure, so that a request fails only for its own windows."""
        requests = list(dict.fromkeys(request for request, _ in batch))
        if len(requests) == 1:
            if not requests[0].done.done():
                requests[0].done.set_exception(error)
            return
        for request in requests:
            await self._forward([(r, i) for r, i in batch if r is request])


def _spans_in(score: Any) -> int:
    """How many spans were found in a window, by what finds such."""
    return len(score) if isinstance(score, list) and score and isinstance(score[0], Found) else 0
