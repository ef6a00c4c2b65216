"""The teacher of a recognizer: the recognizer itself, with averaged weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call

from rayner.config.recognizer import SelfTraining
from rayner.losses.span_contrast import SpanScores
from rayner.tasks.base import Progress


def teacher_of(
    model: nn.Module, progress: Progress, settings: SelfTraining
) -> Callable[..., SpanScores] | None:
    """The model with the averaged weights, without dropout and without gradients; None before its epoch.

    The weights are those that the runtime averages on every worker alike, stores in `last/state` and
    evaluates: what teaches is what `best/` is chosen among.
    """
    weights = progress.average
    if weights is None or progress.epoch + 1 < settings.start_epoch:
        return None

    def scores(*given: object) -> SpanScores:
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                return functional_call(model, dict(weights), given)
        finally:
            model.train(training)

    return scores
