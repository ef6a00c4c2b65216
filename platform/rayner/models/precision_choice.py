"""Which precision the encoders of a model compute in, where a timing is to say so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn

from rayner.config.base import AskedPrecision, Precision
from rayner.models.encoder import Encoder
from rayner.models.precision import autocast, check_precision, default_precision, round_weights

FASTER = 0.9
"""Of float32's time: with less than this, bfloat16 is the faster one and not merely measured at another
moment."""
_LENGTH, _ROUNDS = 64, 2
_TEXTS, _TEXTS_OF_ADVICE = 4, 1
"""The fewer, the more of the time goes into rounding weights, and the less bfloat16 seems to save."""
_SECONDS = 1.0
"""What advice may cost."""
_PARAMETERS = 5_000_000
"""An encoder with fewer is fast in any precision, and gets no advice."""


class Choice(NamedTuple):
    """What a model computes in, and the time of bfloat16 over that of float32, where it was measured."""

    precision: Precision
    ratio: float | None = None

    @property
    def slower_by(self) -> float | None:
        """That ratio, where float32 runs and bfloat16 would be the faster one."""
        is_faster = self.ratio is not None and self.ratio < FASTER
        return round(self.ratio, 3) if self.ratio and is_faster and self.precision == "float32" else None


def choose(asked: AskedPrecision, model: nn.Module, training: bool = False, advise: bool = False) -> Choice:
    """What the model, on its device, is to compute in.

    Args:
        asked: None for what the device takes by default; `auto` for the faster one, by the time of a small
            batch.
        training: whether backward passes are timed too.
        advise: whether float32 is held against bfloat16 also where nobody asks, if that takes less than a
            second and the encoder is not tiny.

    Raises:
        InputError: the device lacks what was asked for.
    """
    encoder = next(encoders_of(model), None)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    if asked not in (None, "auto"):
        check_precision(asked, device)
    chosen = default_precision(device) if asked in (None, "auto") else asked
    # A GPU without bfloat16 emulates it, or fails.
    may_be_timed = device.type != "cuda" or default_precision(device) == "bfloat16"
    is_timed = may_be_timed and (asked == "auto" or advise)
    if encoder is None or chosen != "float32" or not is_timed or next(encoder.parameters()).is_meta:
        return Choice(chosen)
    ratio = _ratio(encoder, device, training, None if asked == "auto" else _SECONDS)
    is_faster = asked == "auto" and ratio is not None and ratio < FASTER
    return Choice("bfloat16" if is_faster else chosen, ratio)


def set_precision(model: nn.Module, precision: Precision, rounded: bool = False) -> None:
    """Have the encoders of a model compute in a precision.

    Args:
        rounded: `round_weights`, for models that only answer: what they would learn or save is not what they
            were given.
    """
    for encoder in encoders_of(model):
        encoder.precision = precision
        if rounded:
            round_weights(encoder, precision)


def precision_of(model: nn.Module) -> Precision:
    """What the encoders of a model compute in."""
    encoder = next(encoders_of(model), None)
    return "float32" if encoder is None else encoder.precision


def encoders_of(model: nn.Module) -> Iterator[Encoder]:
    """The encoders within a model."""
    return (module for module in model.modules() if isinstance(module, Encoder))


def _ratio(encoder: Encoder, device: torch.device, training: bool, limit: float | None) -> float | None:
    """The time of a small batch in bfloat16 over that in float32; None where it would take longer than the
    limit, in seconds, or no time that can be measured, or where the weights are of another type, or where a
    CPU's kernels refuse bfloat16. With a limit, a tiny encoder has none either."""
    if next(encoder.parameters()).dtype != torch.float32:
        return None
    if limit is not None and sum(p.numel() for p in encoder.parameters()) < _PARAMETERS:
        return None
    length, texts = min(_LENGTH, encoder.max_length), _TEXTS if limit is None else _TEXTS_OF_ADVICE
    ids = torch.arange(5, 5 + texts * length, device=device).view(texts, length)
    ids = ids % encoder.model.config.vocab_size
    learned = [p for p in encoder.parameters() if p.requires_grad] if training else []
    was_training = encoder.training
    encoder.eval()
    names: tuple[Precision, ...] = ("float32", "bfloat16")
    fastest = dict.fromkeys(names, float("inf"))
    begin = time.process_time()
    try:
        for turn in range(1 + _ROUNDS):
            for precision in fastest:
                try:
                    spent = _seconds(encoder, ids, learned, precision)
                except RuntimeError:
                    if precision == "float32" or device.type != "cpu":
                        raise
                    # As those of AVX2, where torch was told to use them on a machine that has more.
                    return None
                # The first time of each also chooses its kernels.
                if turn:
                    fastest[precision] = min(fastest[precision], spent)
            so_far = time.process_time() - begin
            if limit is not None and turn == 0 and so_far * (1 + _ROUNDS) > limit:
                return None
    finally:
        encoder.train(was_training)
    # A clock may tick too seldom for a tiny encoder.
    return fastest["bfloat16"] / fastest["float32"] if fastest["float32"] else None


def _seconds(encoder: Encoder, ids: torch.Tensor, learned: list[nn.Parameter], precision: str) -> float:
    """CPU time of this process, which other processes do not change; on a GPU the time of the clock."""
    device = ids.device
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.set_grad_enabled(bool(learned)), autocast(device, precision):
        if not learned:
            # Weights are rounded once for all answers, and here for all that lies within one autocast.
            encoder(ids, mask)
        _wait_for(device)
        begin = clock()
        states = encoder(ids, mask)
    if learned:
        torch.autograd.grad(states.float().square().mean(), learned, allow_unused=True)
    _wait_for(device)
    return clock() - begin


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
