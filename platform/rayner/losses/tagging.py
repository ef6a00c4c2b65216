"""Cross-entropy of word labels, with words whose label is only partly known."""

from __future__ import annotations

import torch
from torch import Tensor


def tagging(logits: Tensor, labels: Tensor, unknown: Tensor, weights: Tensor) -> Tensor:
    """The sum over words of -log P(what the annotation allows), by their weights.

    A word inside an annotated mention allows its label. A word outside (label 0, `O`) allows `O` and each
    label of a type that its document was not annotated for.

    Args:
        logits: [N, C] scores of N words.
        labels: [N] label of each word.
        unknown: [N, C] labels of types that the word's document was not annotated for.
        weights: [N] what each word counts for.

    Returns:
        A scalar, in float32 at least.
    """
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    allowed = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    allowed = allowed | (unknown & (labels == 0)[:, None])
    surprisal = logits.logsumexp(1) - logits.masked_fill(~allowed, -torch.inf).logsumexp(1)
    return (surprisal * weights.to(surprisal.dtype)).sum()
