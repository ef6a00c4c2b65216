from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.models.encoder import load_encoder
from rayner.models.gaussian import EPSILON, GaussianEncoder


def small() -> GaussianEncoder:
    torch.manual_seed(0)
    return GaussianEncoder(load_encoder("random:32x2"), 8, 0.0).eval()


MODEL = small()
IDS = torch.tensor([[101, 2000, 3000, 102], [101, 4000, 102, 0]])
MASK = IDS > 0
WORDS = torch.tensor([[False, True, True, False], [False, True, False, False]])


def test_heads_are_those_of_the_equation() -> None:
    with torch.no_grad():
        found = MODEL(IDS, MASK, WORDS)
        hidden = MODEL.text_encoder(IDS, MASK)[WORDS].double().clamp_min(0)
    for head in (MODEL.mean, MODEL.variance):
        assert head.weight.std().item() > 0.01
    mean = hidden @ MODEL.mean.weight.double().T + MODEL.mean.bias.double()
    raw = hidden @ MODEL.variance.weight.double().T + MODEL.variance.bias.double()
    variance = torch.where(raw > 0, raw + 1, raw.exp()) + EPSILON
    torch.testing.assert_close(found.mean.double(), mean, rtol=0, atol=1e-5)
    torch.testing.assert_close(found.variance.double(), variance, rtol=0, atol=1e-5)


@given(st.floats(-200, 200))
def test_no_variance_is_zero(bias: float) -> None:
    model = small()
    torch.nn.init.constant_(model.variance.bias, bias)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(IDS, MASK, WORDS)
    assert found.variance.dtype == found.mean.dtype == torch.float32
    assert (found.variance > 0).all()
    assert (1 / found.variance).isfinite().all()
