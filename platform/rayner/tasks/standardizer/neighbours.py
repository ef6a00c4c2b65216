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
from rayner.tasks.sharing import blocks, fill


def hard_neighbours(vectors: np.ndarray, distance: Distance, count: int, device: torch.device) -> Tensor:
    """The nearest other entities of each, nearest first: int32 [E, min(count, E - 1)].

    All workers of a training call it together: each looks for those of some of the entities.

    Args:
        vectors: [E, D] float32, of the names of the entities; the same on all workers.
        device: where the product of matrices is done; the table comes on the CPU.
    """
    table = torch.from_numpy(vectors).to(device)
    if distance == "cosine":
        table = F.normalize(table, dim=1)
    offsets = None if distance == "cosine" else exact.half_squares(table)
    count = min(count, len(table) - 1)
    found = torch.empty(len(table), count, dtype=torch.int32)

    def others(entities: np.ndarray) -> Tensor:
        asked = torch.from_numpy(entities)
        rows = exact.nearest(table[asked.to(device)], table, offsets, count + 1)[1].cpu()
        own = rows == asked[:, None]
        # An entity whose name is another's may not find itself: the farthest one goes then.
        own[~own.any(1), -1] = True
        return rows[~own].view(len(entities), count).int()

    fill(found, blocks(len(table), exact.QUERIES), others)
    return found
