"""The contrasts of names, chains and Gaussians over two workers have the loss and the gradients of one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from rayner.losses.gather import gather_rows
from rayner.losses.gaussian import Gaussians, gaussian_contrast
from rayner.losses.infonce import infonce
from rayner.losses.marginal_likelihood import marginal_likelihood
from rayner.losses.multi_similarity import multi_similarity
from rayner.losses.positives import pairs
from tests.runtime.training.several_workers import spawn

ROWS = torch.randn(11, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
KEYS = torch.tensor([[0, 0], [0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1], [0, 2], [0, 2], [1, 2], [1, 2]])


def chains(rows: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    return infonce(rows[own], rows, pairs(KEYS[own], KEYS, own), 0.05)


def gaussians(rows: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    labels = KEYS[:, 0]
    mean, log_variance = Gaussians.of(rows)
    everyone = Gaussians(mean, log_variance.exp())
    anchors = Gaussians(*(part[own] for part in everyone))
    return gaussian_contrast(anchors, everyone, pairs(labels[own], labels, own))


def names(rows: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    entities = KEYS[:, 0]
    return multi_similarity(rows[own], rows, pairs(entities[own], entities, own), 0.1, 0.5, 2.0, 50.0)


def likelihoods(rows: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    entities = KEYS[:, 0]
    return marginal_likelihood(rows[own], rows, pairs(entities[own], entities, own), 0.05, 6)


LOSSES = {"names": names, "likelihoods": likelihoods, "chains": chains, "gaussians": gaussians}


def work(share: int, out: Path) -> None:
    rank = dist.get_rank()
    found = {}
    for name, loss in LOSSES.items():
        mine = (ROWS[:share] if rank == 0 else ROWS[share:]).clone().requires_grad_()
        rows, own = gather_rows(mine)
        total, count = loss(rows, own)
        total.backward()
        # A worker without rows has none that a gradient could reach.
        found[name] = (total.detach(), count, mine.grad if len(mine) else mine.detach())
    torch.save(found, out / f"{rank}.pt")


@pytest.mark.parametrize("share", [4, 11])
def test_two_workers_have_the_loss_and_gradients_of_one(tmp_path: Path, share: int) -> None:
    spawn(work, 2, tmp_path, share, tmp_path)
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    for name, loss in LOSSES.items():
        whole = ROWS.clone().requires_grad_()
        total, count = loss(whole, torch.arange(len(ROWS)))
        (gradient,) = torch.autograd.grad(total, whole)
        assert sum(part[name][1] for part in parts) == count
        torch.testing.assert_close(sum(part[name][0] for part in parts), total.detach(), rtol=0, atol=1e-9)
        gathered = torch.cat([part[name][2] for part in parts])
        torch.testing.assert_close(gathered, gradient, rtol=0, atol=1e-9)
