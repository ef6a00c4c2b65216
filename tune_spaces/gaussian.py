"""Search spaces of Gaussian contrastive pre-training (papers/004)."""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "gaussian"
METRIC = "f1"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, batch, and what is drawn together."""
    return {
        "training.learning_rate": tune.loguniform(1e-5, 2e-4),
        "training.head_learning_rate": tune.loguniform(1e-4, 1e-2),
        "training.tokens_per_step": tune.choice([512, 1024, 2048, 4096]),
        "model.embedding_size": tune.choice([32, 64, 128, 256]),
        "model.dropout": tune.choice([0.0, 0.1, 0.2]),
        "loss.positives": tune.choice(["types", "tags"]),
        "loss.outside": tune.choice(["anchors", "negatives"]),
    }


def contrasts() -> dict[str, Any]:
    """What the paper leaves open: which labels are equal, and whether words outside are drawn together."""
    return {
        "loss.positives": tune.grid_search(["types", "tags"]),
        "loss.outside": tune.grid_search(["anchors", "negatives"]),
    }
