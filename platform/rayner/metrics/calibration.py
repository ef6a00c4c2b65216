"""Whether probabilities are right as often as they say, and the temperature that makes them so."""

from __future__ import annotations

import numpy as np

BINS = 15
_LOWEST, _HIGHEST, _HALVINGS = 1 / 64, 64.0, 40


def expected_calibration_error(probabilities: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """The mean difference of probability and accuracy over bins of equal width (Guo et al. 2017, equation 3).

    Args:
        probabilities: [N] of what was answered, between 0 and 1.
        right: bool [N] whether it was right.

    Returns:
        A number between 0 and 1; 0 without any answer.
    """
    if not len(probabilities):
        return 0.0
    of_bin = np.minimum((probabilities * bins).astype(int), bins - 1)
    gap = np.bincount(of_bin, probabilities - right.astype(float), bins)
    return float(np.abs(gap).sum() / len(probabilities))


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
