"""Search spaces of the context ranker (papers/001)."""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "ranker"
METRIC = "accuracy"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, batch, regularization, pooling and objective."""
    return {
        "training.learning_rate": tune.loguniform(2e-5, 1e-3),
        "training.head_learning_rate": tune.loguniform(2e-4, 1e-2),
        "training.tokens_per_step": tune.choice([512, 1024, 2048]),
        "training.weight_decay": tune.choice([0.0, 0.01, 0.1]),
        "model.dropout": tune.choice([0.0, 0.1, 0.2]),
        "model.pooling": tune.choice(["cls", "mean"]),
        "loss.objective": tune.choice(["binary_cross_entropy", "mean_squared_error"]),
    }


def learning_rates() -> dict[str, Any]:
    """Powers of ten and their halves."""
    return {"training.learning_rate": tune.grid_search([1e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3])}
