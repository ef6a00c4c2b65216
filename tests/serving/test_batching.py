"""Batches of windows of many requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest

from rayner.serving.batching import BATCHES_PER_ROUND, TokenBatcher
from rayner.serving.metrics import Meter
from rayner.serving.problems import TooLarge
from rayner.tasks.document_windows import Found

BUDGET = 100


class Echo:
    """Windows are (name, length); the score of a window is the window. Batches wait for the gate."""

    forward_cost = BUDGET // 16

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.batches: list[list[Any]] = []

    def prepare(self, item: Any) -> list[Any]:
        return [item]

    def length_of(self, window: Any) -> int:
        return window[1]

    def forward(self, windows: Sequence[Any]) -> list[Any]:
        self.batches.append(list(windows))
        assert self.gate.wait(10)
        if any(name == "poison" for name, _ in windows):
            raise ValueError("poison")
        if any(name == "panic" for name, _ in windows):
            raise BaseException("panicked")
        return list(windows)

    def finish(self, item: Any, windows: Sequence[Any], scores: Sequence[Any]) -> Any:
        return scores

    def evaluate(self, predicted: Sequence[Any], gold: Sequence[Any]) -> dict[str, Any]:
        return {}


class Told(Meter):
    """Keeps what it is told of batches and of windows that wait."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int]] = []
        self.waits: list[int] = []

    def batch(self, windows: int, tokens: int, padded: int) -> None:
        self.batches.append((windows, tokens, padded))

    def waiting(self, windows: int) -> None:
        self.waits.append(windows)


def run(work: Any, meter: Meter | None = None) -> Any:
    async def main() -> Any:
        batcher = TokenBatcher(BUDGET, meter or Meter())
        try:
            return await asyncio.wait_for(work(batcher), 300)
        finally:
            await batcher.close()

    return asyncio.run(main())


async def at_work(batcher: TokenBatcher, echo: Echo) -> asyncio.Task[list[Any]]:
    """A request of one window that the model is busy with until the gate is opened."""
    echo.gate.clear()
    task = asyncio.create_task(batcher.scores(echo, [("first", 1)]))
    while not echo.batches:
        await asyncio.sleep(0.001)
    return task


async def waiting(batcher: TokenBatcher, echo: Echo, windows: Sequence[Any]) -> asyncio.Task[list[Any]]:
    """A request that waits for a model at work."""
    before = len(batcher._waiting)
    task = asyncio.create_task(batcher.scores(echo, windows))
    while len(batcher._waiting) == before:
        await asyncio.sleep(0)
    return task


async def gather_behind(batcher: TokenBatcher, echo: Echo, *requests: Sequence[Any]) -> list[Any]:
    """Send the requests while the model works on another one."""
    first = await at_work(batcher, echo)
    tasks = [await waiting(batcher, echo, request) for request in requests]
    echo.gate.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_lone_request_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for more requests, for some time at most, sets the event loop an alarm."""
    alarms: list[float] = []

    async def work(batcher: TokenBatcher) -> Echo:
        echo, loop = Echo(), asyncio.get_running_loop()
        call_at = loop.call_at

        def seen(when: float, *rest: Any, **options: Any) -> asyncio.TimerHandle:
            alarms.append(when)
            return call_at(when, *rest, **options)

        monkeypatch.setattr(loop, "call_at", seen)
        for index in range(50):
            assert await batcher.scores(echo, [(index, 1)]) == [(index, 1)]
        assert not alarms
        await asyncio.sleep(0.001)
        assert alarms, "an alarm is seen"
        return echo

    assert run(work).batches == [[(index, 1)] for index in range(50)]


def test_what_waits_shares_batches_within_the_budget() -> None:
    async def work(batcher: TokenBatcher) -> tuple[Echo, list[Any], list[Any]]:
        echo = Echo()
        requests = [[(f"{r}-{w}", 5 + (7 * r + 3 * w) % 10) for w in range(2)] for r in range(16)]
        return echo, requests, await gather_behind(batcher, echo, *requests)

    echo, requests, answers = run(work)
    assert answers == requests
    for batch in echo.batches:
        assert max(length for _, length in batch) * len(batch) <= BUDGET
    assert len(echo.batches) <= 8
    assert any(len({name.partition("-")[0] for name, _ in batch}) > 1 for batch in echo.batches[1:])


def test_a_book_does_not_keep_sentences_waiting() -> None:
    async def work(batcher: TokenBatcher) -> tuple[Echo, list[Any]]:
        echo = Echo()
        book = [("book", 20)] * 200
        return echo, await gather_behind(batcher, echo, book, [("sentence", 20)], [("other", 20)])

    echo, answers = run(work)
    assert [len(answer) for answer in answers] == [200, 1, 1]
    place = next(i for i, batch in enumerate(echo.batches) if ("sentence", 20) in batch)
    assert place <= 2 + BATCHES_PER_ROUND
    assert any(("book", 20) in batch for batch in echo.batches[place + 2 :])


def test_a_later_request_does_not_overtake_an_older_one_that_finds_no_room() -> None:
    async def work(batcher: TokenBatcher) -> Echo:
        echo = Echo()
        await gather_behind(batcher, echo, [("early", 20)], [("long", 20)] * 10, [("late", 20)])
        return echo

    names = [name for batch in run(work).batches for name, _ in batch]
    assert names == ["first", "early", *["long"] * 10, "late"]


def test_batches_and_what_waits_are_counted() -> None:
    told = Told()

    async def work(batcher: TokenBatcher) -> None:
        await gather_behind(batcher, Echo(), [("a", 10), ("b", 12)])
        await gather_behind(batcher, Echo(), [("book", 20)] * 25)
        while told.waits[-1]:
            await asyncio.sleep(0.001)

    run(work, told)
    assert told.batches[:3] == [(1, 1, 1), (2, 22, 24), (1, 1, 1)]
    assert [windows for windows, _ in groupby(told.waits)] == [2, 0, 25, 15, 5, 0]


def test_a_window_over_the_budget_runs_alone() -> None:
    async def work(batcher: TokenBatcher) -> tuple[Echo, list[Any]]:
        echo = Echo()
        return echo, await gather_behind(batcher, echo, [("wide", 10 * BUDGET)], [("a", 5)])

    echo, answers = run(work)
    assert answers == [[("wide", 10 * BUDGET)], [("a", 5)]]
    assert [("wide", 10 * BUDGET)] in echo.batches


def test_predictors_do_not_mix() -> None:
    async def work(batcher: TokenBatcher) -> tuple[Echo, Echo]:
        one, other = Echo(), Echo()
        first = await at_work(batcher, one)
        pairs = [
            (echo, [(f"{name}{i}", 3)]) for i in range(5) for name, echo in (("one", one), ("other", other))
        ]
        tasks = [await waiting(batcher, echo, windows) for echo, windows in pairs]
        one.gate.set()
        await first
        await asyncio.gather(*tasks)
        return one, other

    one, other = run(work)
    assert {name for batch in other.batches for name, _ in batch} == {f"other{i}" for i in range(5)}
    assert [len(batch) for batch in other.batches] == [5]
    assert [len(batch) for batch in one.batches] == [1, 5]


def test_a_failure_hits_only_the_request_that_made_it() -> None:
    async def work(batcher: TokenBatcher) -> list[Any]:
        echo = Echo()
        return await gather_behind(batcher, echo, [("a", 5)], [("poison", 5), ("x", 5)], [("b", 5)])

    good, bad, also_good = run(work)
    assert good == [("a", 5)]
    assert also_good == [("b", 5)]
    assert isinstance(bad, ValueError)


def test_a_panic_is_answered_as_an_error() -> None:
    """Of Rust it is no `Exception`, and would end the work for all who wait."""

    async def work(batcher: TokenBatcher) -> list[Any]:
        return await gather_behind(batcher, Echo(), [("a", 5)], [("panic", 5)], [("b", 5)])

    good, bad, also_good = run(work)
    assert (good, also_good) == ([("a", 5)], [("b", 5)])
    assert isinstance(bad, RuntimeError)
    assert "panicked" in str(bad)


def test_who_went_away_is_not_worked_for() -> None:
    async def work(batcher: TokenBatcher) -> Echo:
        echo = Echo()
        first = await at_work(batcher, echo)
        gone = await waiting(batcher, echo, [("gone", 5)] * 50)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        echo.gate.set()
        await first
        assert await batcher.scores(echo, [("next", 5)]) == [("next", 5)]
        return echo

    assert all(("gone", 5) not in batch for batch in run(work).batches)


def test_what_a_request_waits_for_is_no_work_of_the_model() -> None:
    async def work(batcher: TokenBatcher) -> tuple[float, float, float, float]:
        begun, gate = threading.Event(), threading.Event()
        made = asyncio.create_task(batcher.run(lambda: begun.set() or gate.wait(10)))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.2)
        making = batcher.busy_for()
        asked = time.monotonic()
        behind = asyncio.create_task(batcher.scores(echo := Echo(), [("a", 5)]))
        await asyncio.sleep(0.05)
        echo.gate.clear()
        gate.set()
        while not echo.batches:
            await asyncio.sleep(0.001)
        reading = batcher.busy_for()
        waited = time.monotonic() - asked - reading
        echo.gate.set()
        await asyncio.gather(made, behind)
        return making, reading, waited, batcher.busy_for()

    making, reading, waited, after = run(work)
    # What is made in the model's thread is work, too, and what waits behind it begins when it is taken up.
    assert making >= 0.2
    assert waited >= 0.05
    assert reading > after == 0


def test_who_finds_too_much_is_read_no_further_and_others_are() -> None:
    class Spans(Echo):
        def forward(self, windows: Sequence[Any]) -> list[Any]:
            super().forward(windows)
            return [[Found(0, 1, 1, 1.0)] * found for found, _ in windows]

    async def work(batcher: TokenBatcher) -> tuple[Spans, list[Any]]:
        spans = Spans()
        many = asyncio.create_task(batcher.scores(spans, [(3, 50)] * 20, most_found=10))
        few = asyncio.create_task(batcher.scores(spans, [(5, 50)] * 2, most_found=10))
        return spans, [*await asyncio.gather(many, few, return_exceptions=True)]

    spans, (many, few) = run(work)
    assert isinstance(many, TooLarge)
    assert str(many).startswith("documents: more than 10 spans in them are above their thresholds; raise")
    assert [len(found) for found in few] == [5, 5]
    assert sum(window == (3, 50) for batch in spans.batches for window in batch) < 10


def test_nothing_waits_when_all_who_waited_have_given_up() -> None:
    told = Told()

    async def work(batcher: TokenBatcher) -> None:
        echo = Echo()
        first = await at_work(batcher, echo)
        gone = await waiting(batcher, echo, [("gone", 5)] * 50)
        echo.gate.set()
        await first
        gone.cancel()
        for _ in range(5000):
            if told.waits[-1:] == [0]:
                break
            await asyncio.sleep(0.001)

    run(work, told)
    assert told.waits[-1] == 0


def test_no_windows_no_work() -> None:
    async def work(batcher: TokenBatcher) -> list[Any]:
        return await batcher.scores(Echo(), [])

    assert run(work) == []
