from __future__ import annotations

import pytest
import torch

from rayner.config import TrainingSettings
from rayner.models.encoder import load_encoder
from rayner.runtime.training.optimization import build_optimizer, set_rate


class Biased(torch.nn.Module):
    without_decay = ("thresholds",)

    def __init__(self) -> None:
        super().__init__()
        self.thresholds = torch.nn.Parameter(torch.ones(2, 3))
        self.vectors = torch.nn.Parameter(torch.ones(2, 3))


def test_biases_of_types_do_not_decay() -> None:
    model = Biased()
    optimizer = build_optimizer(model, TrainingSettings(learning_rate=0.1, head_learning_rate=0.1))
    set_rate(optimizer, 0, 1, 0.0)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert model.thresholds.eq(1).all()
    assert model.vectors.lt(1).all()


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = load_encoder("random:16x3")
        self.head = torch.nn.Linear(16, 2)


def rates(decay: float) -> dict[str, float]:
    model = Model()
    settings = TrainingSettings(learning_rate=1e-3, head_learning_rate=1e-2, layer_decay=decay)
    optimizer = build_optimizer(model, settings)
    assert set_rate(optimizer, 0, 10, 0.1) == 1e-3
    of = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert len(of) == len(list(model.parameters()))
    return {name: of[id(p)] for name, p in model.named_parameters()}


def test_the_rates_of_lower_layers_are_lower() -> None:
    found = rates(0.5)
    wanted = {"encoder.model.encoder.layer.2.": 1e-3, "layer.1.": 5e-4, "layer.0.": 2.5e-4}
    wanted |= {"embeddings.": 1.25e-4, "head.": 1e-2}
    for part, rate in wanted.items():
        names = [name for name in found if part in name]
        assert names
        assert [found[name] for name in names] == pytest.approx([rate] * len(names))


def test_all_layers_learn_alike_by_default_in_the_groups_that_there_were() -> None:
    model = Model()
    optimizer = build_optimizer(model, TrainingSettings())
    assert [(g["peak"], g["weight_decay"]) for g in optimizer.param_groups] == [
        (2e-4, 0.0),
        (2e-4, 0.01),
        (1e-3, 0.0),
        (1e-3, 0.01),
    ]
