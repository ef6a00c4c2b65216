"""Search spaces of the recognizer (papers/000)."""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "recognizer"
METRIC = "f1"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, batch, and what weighs against what in the loss."""
    return {
        "training.learning_rate": tune.loguniform(2e-5, 8e-4),
        "training.head_learning_rate": tune.loguniform(2e-4, 5e-3),
        "training.tokens_per_step": tune.choice([256, 512, 1024, 2048]),
        "model.temperature": tune.loguniform(0.03, 0.3),
        "model.dropout": tune.choice([0.0, 0.1, 0.2]),
        "loss.span_weight": tune.uniform(0.3, 1.0),
        "loss.start_weight": tune.uniform(0.0, 0.4),
        "loss.end_weight": tune.uniform(0.0, 0.4),
        "loss.beta": tune.uniform(0.2, 0.8),
    }


def loss_weights() -> dict[str, Any]:
    """How much start and end weigh beside spans; the paper has 0.2, 0.2 and 0.6 (appendix A.4)."""
    return {
        "loss.start_weight": tune.grid_search([0.0, 0.1, 0.2, 0.4]),
        "loss.end_weight": tune.grid_search([0.0, 0.1, 0.2, 0.4]),
        "loss.span_weight": tune.grid_search([0.6]),
    }


def beta() -> dict[str, Any]:
    """Mentions against thresholds (equations 8 and 9); the paper weighs them equally."""
    return {"loss.beta": tune.grid_search([0.1, 0.3, 0.5, 0.7, 0.9])}


def temperature() -> dict[str, Any]:
    """Around the 0.07 that the paper starts from."""
    return {"model.temperature": tune.grid_search([0.02, 0.05, 0.07, 0.1, 0.2, 0.5])}


def thresholds() -> dict[str, Any]:
    """The three ways to tell mentions from other spans (table 6)."""
    return {"model.threshold": tune.grid_search(["dynamic", "learned", "tuned"])}
