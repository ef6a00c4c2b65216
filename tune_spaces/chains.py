"""Search spaces of the pre-training on coreference chains (papers/003)."""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "chains"
METRIC = "mrr"  # the same for all `negatives`
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rate, stories a step, the contrast and what is masked."""
    return {
        "training.learning_rate": tune.loguniform(1e-5, 5e-4),
        "training.tokens_per_step": tune.choice([4096, 8192, 16384]),
        "loss.temperature": tune.choice([0.03, 0.05, 0.07, 0.1]),
        "loss.mlm_weight": tune.choice([0.0, 0.3, 1.0]),
        "masking.mentions": tune.choice(["none", "head", "span"]),
        "masking.mention_rate": tune.choice([0.15, 0.3]),
        "model.tokens": tune.choice(["head", "span"]),
    }


def negatives() -> dict[str, Any]:
    """Negatives and masking as in papers/003, table 5."""
    return {
        "loss.negatives": tune.grid_search(["other_stories", "same_story"]),
        "masking.mentions": tune.grid_search(["none", "head", "span"]),
    }
