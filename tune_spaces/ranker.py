"""Search spaces of the context ranker (papers/001)."""

from __future__ import annotations

from typing import Any

from ray import tune

from rayner.runtime.sweeps.ranges import learning_rates as learning_rates
from rayner.runtime.sweeps.ranges import optimization

TASK = "ranker"
METRIC = "accuracy"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, batch, regularization, pooling and objective."""
    return {
        **optimization(),
        "training.tokens_per_step": tune.choice([512, 1024, 2048]),
        "model.dropout": tune.choice([0.0, 0.1, 0.2]),
        "model.pooling": tune.choice(["cls", "mean"]),
        "loss.objective": tune.choice(["binary_cross_entropy", "mean_squared_error"]),
    }
