"""What search spaces of several tasks share."""

from __future__ import annotations

from typing import Any

from ray import tune


def optimization() -> dict[str, Any]:
    """Learning rates of the encoder and of a head on it, and weight decay."""
    return {
        "training.learning_rate": tune.loguniform(2e-5, 1e-3),
        "training.head_learning_rate": tune.loguniform(2e-4, 1e-2),
        "training.weight_decay": tune.choice([0.0, 0.01, 0.1]),
    }


def learning_rates() -> dict[str, Any]:
    """Powers of ten and their halves."""
    return {"training.learning_rate": tune.grid_search([1e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3])}
