"""The temperature that makes probabilities right as often as they say."""

from __future__ import annotations

import numpy as np

_LOWEST, _HIGHEST, _HALVINGS = 1 / 64, 64.0, 40


def best_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature of a softmax under which the labels are most probable (Guo et al. 2017, section 4.2).

    The surprisal of the labels is convex in 1 / temperature, so its only minimum is where the slope changes
    its sign. Where all labels are the highest, or no better than chance, it is the end of what is searched.

    Args:
        logits: [N, C].
        labels: [N].

    Returns:
        A number from 1 / 64 to 64; 1 without labels.
    """
    if not len(labels):
        return 1.0
    scores = logits.astype(np.float64)
    scores = scores - scores.max(1, keepdims=True)
    own = scores[np.arange(len(labels)), labels].mean()
    low, high = np.log(1 / _HIGHEST), np.log(1 / _LOWEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        weights = np.exp(np.exp(middle) * scores)
        mean = ((weights * scores).sum(1) / weights.sum(1)).mean()
        low, high = (middle, high) if mean < own else (low, middle)
    return float(np.exp(-(low + high) / 2))
