"""Search spaces of the mention-ranking model of coreference (Lee et al. 2017)."""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "coreference"
METRIC = "conll_f1"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, the step, and how many spans are compared."""
    return {
        "training.learning_rate": tune.loguniform(2e-5, 5e-4),
        "training.head_learning_rate": tune.loguniform(2e-4, 5e-3),
        "training.tokens_per_step": tune.choice([768, 1536, 3072]),
        "model.spans_per_word": tune.choice([0.2, 0.3, 0.4]),
        "model.antecedents": tune.choice([50, 100, 150]),
        "model.hidden_size": tune.choice([100, 150, 300]),
        "model.dropout": tune.choice([0.1, 0.2, 0.3]),
    }
