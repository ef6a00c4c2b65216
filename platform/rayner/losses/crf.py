"""The linear-chain conditional random field (Lafferty et al. 2001), exact, with partly known labels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rayner.losses.full_precision import exact

_FORBIDDEN = -1e30
"""Of a label that is not allowed: its exponential is 0, and no gradient through it is undefined."""


def log_partition(scores: Tensor, lengths: Tensor, between: Tensor) -> Tensor:
    """[B] the log of the sum over all sequences of labels of exp(score), by the forward algorithm.

    Args:
        scores: [B, T, C] of each label at each place.
        lengths: int64 [B] the places of each sequence, of which the others are padding; at least 1.
        between: [C, C] of a label after another: `between[first, second]`.
    """
    reached = scores[:, 0]
    for place in range(1, scores.shape[1]):
        step = (reached[:, :, None] + between).logsumexp(1) + scores[:, place]
        reached = torch.where((place < lengths)[:, None], step, reached)
    return reached.logsumexp(1)


def crf(logits: Tensor, lengths: Sequence[int], labels: Tensor, unknown: Tensor, between: Tensor) -> Tensor:
    """The sum over windows of -log P(what the annotation allows), which is one sequence where all is known.

    What a label allows is as in `losses.tagging`.

    Args:
        logits: [N, C] scores of N words, one window after another.
        lengths: the words of each of B windows, 0 allowed.
        labels: [N] label of each word.
        unknown: [N, C] labels of types that the word's document was not annotated for.
        between: [C, C] as in `log_partition`.

    Returns:
        A scalar, in float32 at least, also under autocast.
    """
    with torch.autocast(logits.device.type, enabled=False):
        logits = exact(logits)
        between = between.to(logits.dtype)
        # Of words alone nothing is between labels: its gradient is 0, not missing.
        nothing = logits.sum() * 0 + between.sum() * 0
        lengths = [length for length in lengths if length]
        if not lengths:
            return nothing
        allowed = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
        allowed = allowed | (unknown & (labels == 0)[:, None])
        held = logits.masked_fill(~allowed, _FORBIDDEN)
        own, every = (
            torch.nn.utils.rnn.pad_sequence([*part.split(lengths)], batch_first=True)
            for part in (held, logits)
        )
        places = torch.tensor(lengths).to(logits.device, non_blocking=True)
        surprisal = log_partition(every, places, between) - log_partition(own, places, between)
        return surprisal.sum() + nothing
