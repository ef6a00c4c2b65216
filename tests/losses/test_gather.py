"""Rows of all workers, and what reaches them back, for shares of any size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rayner.losses.gather import gather_rows
from tests.runtime.training.several_workers import spawn

ROWS = torch.arange(20, dtype=torch.float64).reshape(5, 4) / 7


def weighted(rows: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    return ((anchors @ rows.T) ** 2).sum() + (rows * ROWS.flip(0)).sum()


def work(shares: list[int], out: Path) -> None:
    rank = torch.distributed.get_rank()
    begin = sum(shares[:rank])
    mine = ROWS[begin : begin + shares[rank]].clone()
    mine = torch.zeros(0, 0, dtype=torch.float64) if not len(mine) else mine
    mine.requires_grad_()
    rows, own = gather_rows(mine)
    # Each worker's share of the sum: its anchors, and the other term on the first worker alone.
    loss = ((rows[own] @ rows.T) ** 2).sum() + (rows * ROWS.flip(0)).sum() * (rank == 0)
    loss.backward()
    torch.save((rows.detach(), own, mine.grad), out / f"{rank}.pt")


@pytest.mark.parametrize("shares", [[2, 3], [5, 0], [0, 5]])
def test_two_workers_have_the_rows_and_gradients_of_one(tmp_path: Path, shares: list[int]) -> None:
    whole = ROWS.clone().requires_grad_()
    weighted(whole, whole).backward()
    spawn(work, 2, tmp_path, shares, tmp_path)
    assert whole.grad is not None
    begin = 0
    for rank, share in enumerate(shares):
        rows, own, gradient = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(rows, ROWS, rtol=0, atol=0)
        assert own.tolist() == list(range(begin, begin + share))
        assert gradient is not None
        if share:
            torch.testing.assert_close(gradient, whole.grad[begin : begin + share], rtol=1e-12, atol=1e-12)
        else:
            assert not gradient.numel()
        begin += share


def test_alone_nothing_is_copied() -> None:
    rows, own = gather_rows(ROWS)
    assert rows is ROWS
    assert own.tolist() == [0, 1, 2, 3, 4]
