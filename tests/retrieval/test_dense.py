"""Where the vectors of an index are searched."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rayner.retrieval.dense import DenseSide


def test_it_is_searched_on_the_gpu_of_the_model_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.zeros((100, 10), np.float32)
    free = {torch.device("cuda", 0): vectors.nbytes, torch.device("cuda", 1): 2 * vectors.nbytes}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[device], 0))
    dense = DenseSide(vectors, "cosine")
    for model, search in (("cuda:1", "cuda:1"), ("cuda:0", "cpu"), ("cpu", "cpu")):
        dense.search_beside(torch.device(model))
        assert str(dense.device) == search
