"""The rows of all workers, with gradient, for losses over everything that a step holds."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def gather_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of all workers in the order of their ranks, and the places of this worker's among them.

    Workers may have different numbers of rows, also none; a worker with none need not know their width. The
    gradient of a row is the sum over all workers of what reaches it: every worker must take part in the
    backward pass. Without a process group, a worker is alone.

    Args:
        rows: [N, D], of one dtype on all workers.

    Returns:
        [sum of all N, D] and int64 [N].
    """
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return rows, torch.arange(len(rows), device=rows.device)
    shape = torch.tensor(rows.shape, device=rows.device)
    shapes = [torch.empty_like(shape) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, shape)
    # Read at once: each reading from a GPU waits for it.
    numbers, widths = zip(*torch.stack(shapes).tolist(), strict=True)
    if not len(rows):
        # Not a new tensor: the gradient, though empty, must come back to what the caller holds.
        rows = rows.reshape(0, max(widths))
    gathered: Tensor = _Gather.apply(rows, numbers)  # type: ignore[assignment]
    begin = sum(numbers[: dist.get_rank()])
    return gathered, torch.arange(begin, begin + len(rows), device=rows.device)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, numbers: tuple[int, ...]) -> Tensor:
        rank = dist.get_rank()
        begin = sum(numbers[:rank])
        ctx.own = slice(begin, begin + numbers[rank])
        # Collectives want shares of one size.
        padded = rows.new_zeros(max(numbers), rows.shape[1])
        padded[: len(rows)] = rows
        shares = [torch.empty_like(padded) for _ in numbers]
        dist.all_gather(shares, padded)
        return torch.cat([share[:number] for share, number in zip(shares, numbers, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.own], None
