"""Search spaces of the token tagger (papers/004)."""

from __future__ import annotations

from typing import Any

from ray import tune

from rayner.runtime.sweeps.ranges import learning_rates as learning_rates
from rayner.runtime.sweeps.ranges import optimization

TASK = "tagger"
METRIC = "f1"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, batch, regularization and the scheme of tags."""
    return {
        **optimization(),
        "training.tokens_per_step": tune.choice([256, 512, 1024, 2048]),
        "model.dropout": tune.choice([0.0, 0.1, 0.2, 0.3]),
        "model.scheme": tune.choice(["BIO", "BIOES"]),
    }


def schemes() -> dict[str, Any]:
    """Learning rates in both schemes of tags."""
    return {
        "training.learning_rate": tune.grid_search([1e-4, 2e-4, 4e-4]),
        "model.scheme": tune.grid_search(["BIO", "BIOES"]),
    }


def losses() -> dict[str, Any]:
    """Which words outside of mentions count, and how much (papers/003, appendix A)."""
    return {
        "loss.outside": tune.grid_search(["all", "neighbours"]),
        "loss.outside_weight": tune.grid_search([0.25, 0.5, 1.0]),
    }


def decoding() -> dict[str, Any]:
    """Whether labels are chosen one by one or as a sequence, in both schemes."""
    return {
        "decoding": tune.grid_search(["greedy", "constrained", "crf"]),
        "model.scheme": tune.grid_search(["BIO", "BIOES"]),
    }
