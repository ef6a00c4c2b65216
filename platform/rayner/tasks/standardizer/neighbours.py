"""Which entities a model takes for each other: a table of neighbours, made anew at the start of an epoch.

ANCE (Xiong et al. 2021) takes such negatives from an index of the model as it is.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rayner.losses.distances import Distance
from rayner.retrieval import exact


def hard_neighbours(vectors: np.ndarray, distance: Distance, count: int) -> Tensor:
    """The nearest other entities of each, nearest first: int32 [E, min(count, E - 1)].

    Args:
        vectors: [E, D] float32, of the names of the entities.
    """
    table = torch.from_numpy(vectors)
    if distance == "cosine":
        table = F.normalize(table, dim=1)
    offsets = None if distance == "cosine" else exact.half_squares(table)
    count = min(count, len(table) - 1)
    _, rows = exact.nearest(table, table, offsets, count + 1)
    own = rows == torch.arange(len(table))[:, None]
    # An entity whose name is another's may not find itself: the farthest one goes then.
    own[~own.any(1), -1] = True
    return rows[~own].view(len(table), count).int()
