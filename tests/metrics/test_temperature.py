"""Calibration of probabilities, on labels that were drawn from known ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayner.metrics.reliability import reliability
from rayner.metrics.temperature import best_temperature


def softmax(logits: np.ndarray) -> np.ndarray:
    found = np.exp(logits - logits.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def drawn(seed: int, size: int = 20_000, labels: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels that are drawn from their probabilities."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((size, labels))
    return logits, (rng.random((size, 1)) > softmax(logits).cumsum(1)).sum(1).clip(max=labels - 1)


def error(logits: np.ndarray, labels: np.ndarray) -> float:
    probabilities = softmax(logits)
    return reliability(probabilities.max(1), probabilities.argmax(1) == labels).error


@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
def test_the_temperature_undoes_a_factor_and_the_error_goes(factor: float) -> None:
    logits, labels = drawn(1)
    temperature = best_temperature(factor * logits, labels)
    assert temperature == pytest.approx(factor, rel=0.05)
    before, after = error(factor * logits, labels), error(factor * logits / temperature, labels)
    assert after < 0.02
    assert before < 0.02 if factor == 1 else before > 0.05


@given(st.integers(0, 2**16), st.floats(0.1, 10))
@settings(max_examples=25)
def test_no_other_temperature_makes_the_labels_more_probable(seed: int, other: float) -> None:
    logits, labels = drawn(seed, size=40, labels=3)

    def surprisal(temperature: float) -> float:
        return -np.log(softmax(logits / temperature)[np.arange(len(labels)), labels]).mean()

    assert surprisal(best_temperature(logits, labels)) <= surprisal(other) + 1e-9


def test_what_has_no_minimum_ends_where_the_search_does() -> None:
    logits = np.array([[2.0, 0.0], [3.0, 0.0]])
    assert best_temperature(logits, np.array([0, 0])) == pytest.approx(1 / 64)
    assert best_temperature(logits, np.array([1, 1])) == pytest.approx(64)
    assert best_temperature(np.zeros((0, 3)), np.zeros(0, dtype=int)) == 1
