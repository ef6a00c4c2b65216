"""Pooling, projection and length of the vectors of names, from their definitions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rayner.config import NameEncoderSettings
from rayner.models.encoder import load_encoder
from rayner.models.name_encoder import NameEncoder

IDS = torch.tensor([[2, 7, 8, 9, 3], [2, 7, 3, 0, 0]])
MASK = IDS != 0


def encoder(**settings: object) -> NameEncoder:
    torch.manual_seed(0)
    chosen = NameEncoderSettings.model_validate({"dropout": 0.0, **settings})
    return NameEncoder(load_encoder("random:32x2"), chosen).eval()


def pooled(states: Tensor, how: str) -> Tensor:
    """[H] of the states [L, H] of one name."""
    return {"mean": states.mean(0), "max": states.max(0).values, "cls": states[0]}[how]


@pytest.mark.parametrize("how", ["mean", "max", "cls"])
@pytest.mark.parametrize("size", [None, 8])
@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_are_those_of_each_name_alone(how: str, size: int | None, normalize: bool) -> None:
    model = encoder(pooling=how, projection_size=size, normalize=normalize)
    found = model(IDS, MASK)
    assert found.shape == (2, model.size) == (2, size or 32)
    for vector, ids, mask in zip(found, IDS, MASK, strict=True):
        alone = ids[mask][None]
        expected = pooled(model.text_encoder(alone, torch.ones_like(alone, dtype=torch.bool))[0], how)
        if model.projection is not None:
            expected = model.projection(expected)
        if normalize:
            expected = expected / expected.norm()
        torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)
