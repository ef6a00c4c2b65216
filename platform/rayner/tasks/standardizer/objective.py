"""The objective of a recipe, over the names of a step."""

from __future__ import annotations

from torch import Tensor

from rayner.config.standardizer import MiningSettings
from rayner.losses.distances import distances
from rayner.losses.infonce import infonce
from rayner.losses.marginal_likelihood import marginal_likelihood
from rayner.losses.multi_similarity import multi_similarity
from rayner.losses.positives import pairs
from rayner.losses.triplet import batch_all, batch_hard
from rayner.tasks.base import Progress


def easy_epochs(epochs: int) -> int:
    """In how many of the epochs `hybrid` takes all triplets, before the hardest: the first half."""
    return -(-epochs // 2)


def contrast(
    settings: MiningSettings,
    anchors: Tensor,
    candidates: Tensor,
    entities: Tensor,
    own: Tensor,
    progress: Progress,
) -> tuple[Tensor, Tensor]:
    """The loss of anchors [A, D] among candidates [C, D], whose entities are [C]; `own` [A] are the places of
    the anchors (papers/002, section 3.3; papers/003, section 3, for InfoNCE)."""
    found = pairs(entities[own], entities, own)
    if settings.mining == "infonce":
        return infonce(anchors, candidates, found, settings.temperature)
    if settings.mining == "marginal_likelihood":
        asked = (settings.temperature, settings.candidates)
        return marginal_likelihood(anchors, candidates, found, *asked)
    if settings.mining == "multi_similarity":
        scales = (settings.base, settings.positive_scale, settings.negative_scale)
        return multi_similarity(anchors, candidates, found, settings.margin, *scales)
    hard = settings.mining == "batch_hard" or (
        settings.mining == "hybrid" and progress.epoch >= easy_epochs(progress.epochs)
    )
    mine = batch_hard if hard else batch_all
    return mine(distances(anchors, candidates, settings.distance), found, settings.margin)
