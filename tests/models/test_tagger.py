from __future__ import annotations

import torch

from rayner.models.encoder import load_encoder
from rayner.models.tagger import Tagger

IDS = torch.tensor([[101, 2019, 2020, 102], [101, 2019, 102, 0]])


def test_every_sub_word_has_a_score_for_every_label() -> None:
    torch.manual_seed(0)
    model = Tagger(load_encoder("random:16x1"), labels=5, dropout=0.1)
    logits = model.eval()(IDS, IDS != 0)
    assert logits.shape == (2, 4, 5)
    torch.testing.assert_close(logits[1, :3], model(IDS[1:, :3], IDS[1:, :3] != 0)[0], rtol=0, atol=1e-5)
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_without_dropout_training_is_deterministic() -> None:
    model = Tagger(load_encoder("random:16x1"), labels=2, dropout=0.0).train()
    assert torch.equal(model(IDS, IDS != 0), model(IDS, IDS != 0))
