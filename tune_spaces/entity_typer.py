"""Search spaces of the entity typer (papers/003).

The file is not called typer.py: a folder that a job runs from must not hide the package of that name.
"""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "typer"
METRIC = "macro_f1"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rates, batch, regularization, where mentions are read, and the head."""
    return {
        "training.learning_rate": tune.loguniform(1e-5, 5e-4),
        "training.head_learning_rate": tune.loguniform(1e-4, 1e-2),
        "training.tokens_per_step": tune.choice([512, 1024, 2048]),
        "training.weight_decay": tune.choice([0.0, 0.01, 0.1]),
        "model.dropout": tune.choice([0.0, 0.1, 0.2, 0.3]),
        "model.mention_encoding": tune.choice(["head", "span_markers", "head_markers", "mask", "prompt"]),
        "model.head": tune.choice(["linear", "labels"]),
    }


def encodings() -> dict[str, Any]:
    """Every way to read a mention (papers/003, table 4)."""
    return {
        "model.mention_encoding": tune.grid_search(
            ["mask", "prompt", "triple", "span_markers", "head_markers", "head"]
        )
    }
