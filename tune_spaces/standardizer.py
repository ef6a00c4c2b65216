"""Search spaces of the standardizer (papers/002)."""

from __future__ import annotations

from typing import Any

from ray import tune

TASK = "standardizer"
METRIC = "top1"
MODE = "max"
SCHEDULER = "asha"


def space() -> dict[str, Any]:
    """Learning rate, batch composition with and without neighbours, mining and its margin, temperature."""
    return {
        "training.learning_rate": tune.loguniform(1e-6, 1e-3),
        "groups.groups_per_step": tune.choice([4, 8, 16, 32]),
        "groups.group_size": tune.choice([2, 5, 10, 20]),
        "groups.neighbours": tune.choice([0, 8]),
        "loss.mining": tune.choice(["batch_all", "batch_hard", "hybrid", "infonce", "multi_similarity"]),
        "loss.margin": tune.loguniform(0.05, 1.0),
        "loss.temperature": tune.loguniform(0.02, 0.2),
        "model.pooling": tune.choice(["mean", "cls", "max"]),
    }


def table_5() -> dict[str, Any]:
    """The paper's own grid on ESAppMod; it measures distances as published, not as cosines."""
    return {
        **_as_published(),
        "groups.groups_per_step": tune.grid_search([4, 8, 16, 32]),
        "training.learning_rate": tune.grid_search([1e-3, 1e-4, 1e-5, 1e-6]),
        "loss.margin": tune.grid_search([0.5, 1, 2, 5, 10]),
    }


def figure_3() -> dict[str, Any]:
    """Learning rates; the paper judges them by five folds of the training data."""
    return {"training.learning_rate": tune.grid_search([1e-4, 5e-5, 1e-5, 1e-6]), **_as_published()}


def figure_4() -> dict[str, Any]:
    """Hybrid mining against each of its halves, at three learning rates."""
    return {
        "training.learning_rate": tune.grid_search([1e-4, 5e-5, 1e-5]),
        **_as_published(),
        "loss.mining": tune.grid_search(["batch_all", "batch_hard", "hybrid"]),
    }


def _as_published() -> dict[str, Any]:
    """Euclidean distances of vectors as they come: on cosines, a margin of 5 would have no meaning.

    Pooling and augmentation stay the recipe's, which the paper has not.
    """
    return {
        "loss.distance": tune.grid_search(["euclidean"]),
        "loss.mining": tune.grid_search(["hybrid"]),
        "model.normalize": tune.grid_search([False]),
        "loss.margin": tune.grid_search([2]),
    }
