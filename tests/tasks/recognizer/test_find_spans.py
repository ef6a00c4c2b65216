from __future__ import annotations

import pytest
import torch

from rayner.config import BiEncoderSettings
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.encoder import load_encoder
from rayner.tasks.recognizer import predictor as module
from rayner.tasks.recognizer.predictor import select


@pytest.mark.parametrize("cells", [1, 200, 1 << 24])
@pytest.mark.parametrize("shift", [0.0, torch.linspace(-3, 3, 7)])
def test_chunks_of_types_find_what_all_types_find(
    monkeypatch: pytest.MonkeyPatch, cells: int, shift: float | torch.Tensor
) -> None:
    torch.manual_seed(0)
    encoder = load_encoder("random:16x1")
    model = BiEncoder(BiEncoderSettings(max_span_width=4, threshold="learned"), encoder, None, 7).eval()
    ids = torch.randint(1000, 2000, (3, 9))
    word = torch.ones(3, 9, dtype=torch.bool)
    word[:, 0] = False
    directions = torch.nn.functional.normalize(torch.randn(3, 7, 128), dim=2)
    types = TypeVectors(*directions, torch.randn(7, 3))
    monkeypatch.setattr(module, "_CELLS_AT_ONCE", cells)
    with torch.inference_mode():
        found = module.find_spans(model, ids, ids > 0, types, word, word, shift)
        expected = select(model(ids, ids > 0, types), word, word, shift)
    assert len(expected.window) > 10
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)
