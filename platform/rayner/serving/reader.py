"""From documents to answers in a replica: predictors that are kept, batches that requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from rayner.data.batches import tokens_per_batch
from rayner.serving.application_settings import BatchingSettings
from rayner.serving.batching import TokenBatcher
from rayner.serving.metrics import Meter
from rayner.serving.predictors import AnyPredictor, PredictorCache
from rayner.serving.problems import NotReady
from rayner.serving.remote_stages import RemoteStage
from rayner.tasks.encoder_task import default_device
from rayner.tasks.predict import Piece, Predicted, joined, pieces_of, stages_of

T = TypeVar("T")

_LONG = 2_000
"""Characters from which on texts are prepared in another thread, so that other requests go on: about
as many as take 2 ms. Below, the way to the thread and back is no shorter than the work."""


class Reader:
    """Reads documents with predictors.

    Args:
        batching: how texts are batched.
        meter: where batches are counted.
        device: where models run; a GPU where there is one.
        most_found: of the documents of one call, at most so many spans may be above their thresholds.
    """

    def __init__(
        self, batching: BatchingSettings, meter: Meter, device: str | None, most_found: int | None = None
    ) -> None:
        self._most_found = most_found
        self._batcher = TokenBatcher(batching.tokens or tokens_per_batch(device or default_device()), meter)

    async def predictor(self, kept: PredictorCache[Any], key: Any) -> AnyPredictor:
        """The predictor of a key; one that must be made takes its turn with the batches.

        Raises:
            InputError: the task cannot do what the key asks for.
        """
        return kept.get(key) or await self._batcher.run(partial(kept.make, key))

    async def answers(
        self,
        predictor: AnyPredictor,
        items: Sequence[Any],
        check: Callable[[Sequence[Predicted]], None] = lambda _: None,
    ) -> list[Predicted]:
        """What `predict_and_count` gives, in batches that are shared with other requests.

        Args:
            check: refuses what a stage answered, before another one reads it.

        Raises:
            TooLarge: more than `most_found`, or as `check`.
        """
        first, *others = stages_of(predictor)
        answers = await self._one_stage(first, items)
        for stage in others:
            check(answers)
            found = await self._one_stage(stage, [answer.out for answer in answers])
            answers = [Predicted(new.out, old.windows) for new, old in zip(found, answers, strict=True)]
        return answers

    def check(self, stuck_after: float) -> None:
        """Raise NotReady if the model has been at one piece of work for so many seconds."""
        if (seconds := self._batcher.busy_for()) > stuck_after:
            raise NotReady(f"the model has been at one piece of work for {seconds:.0f} seconds")

    async def close(self) -> None:
        """Stop working."""
        await self._batcher.close()

    async def _one_stage(self, predictor: AnyPredictor, items: Sequence[Any]) -> list[Predicted]:
        if isinstance(predictor, RemoteStage):
            return await predictor.answers(items)
        size = sum(len(item if isinstance(item, str) else item.text) for item in items)

        def prepare() -> list[tuple[Piece, Any, list[Any]]]:
            parts = ((piece, piece.part) for piece in pieces_of(items, predictor.whole))
            return [(piece, part, predictor.prepare(part)) for piece, part in parts]

        prepared = await aside(prepare, size >= _LONG)
        windows = [window for *_, own in prepared for window in own]
        scores = iter(await self._batcher.scores(predictor, windows, self._most_found))

        def finish() -> list[Predicted]:
            return list(
                joined(
                    (piece, predictor.finish(part, windows, list(islice(scores, len(windows)))), len(windows))
                    for piece, part, windows in prepared
                )
            )

        return await aside(finish, size >= _LONG)


async def aside(work: Callable[[], T], is_long: bool) -> T:
    """What the work gives; long work is done in another thread, so that other requests go on."""
    return await asyncio.to_thread(work) if is_long else work()
