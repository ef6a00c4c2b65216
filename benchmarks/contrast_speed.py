"""The contrasts of chains and of Gaussians beside their direct forms: seconds and peak memory of a step.

    python -m benchmarks.contrast_speed --chains 2000 --gaussians 4000 --direct 250 500

A step is the loss and its gradient, in float32 on one thread, in a process of its own. The direct forms hold
tensors of pairs and dimensions: they are given fewer tokens, and what more would cost follows from the square
of their number (`from`). `times` compares a direct form with ours at as many tokens.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.figures import add_out, measured, record
from benchmarks.meter import Meter
from rayner.losses.gaussian import Gaussians, gaussian_contrast
from rayner.losses.infonce import infonce
from rayner.losses.positives import pairs

WIDTH = {"chains": 384, "gaussians": 128}
TOKENS_OF_A_CHAIN, CHAINS_OF_A_STORY = 5, 8
LABELS = 5
TEMPERATURE = 0.05
REPEATS = 3

log = logging.getLogger("contrast_speed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each loss, form and number of tokens."""
    parser = argparse.ArgumentParser(description="Rows of the table of contrasts, as JSON.")
    parser.add_argument("--chains", type=int, default=2000, help="mention tokens of the loss of chains")
    parser.add_argument("--gaussians", type=int, default=4000, help="tokens of the loss of Gaussians")
    parser.add_argument("--direct", type=int, nargs="+", default=[250, 500], help="tokens of direct forms")
    add_out(parser, "contrast_speed")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.INFO)
    rows = []
    for loss, tokens in (("chains", chosen.chains), ("gaussians", chosen.gaussians)):
        numbers = sorted({*(n for n in chosen.direct if n < tokens), tokens})
        ours = {number: measure(loss, "rayner", number) for number in numbers}
        direct = [measure(loss, "direct", number) for number in numbers[:-1]]
        direct += [extrapolated(row, tokens) for row in direct[-1:]]
        rows += [*ours.values(), *(row | compared(row, ours[row["tokens"]]) for row in direct)]
    units = {"seconds": "s", "peak_mb": "MB", "times_seconds": "ratio", "times_peak_mb": "ratio"}
    record(
        "contrast_speed",
        chosen.out,
        title="The contrasts of chains and Gaussians beside their direct forms",
        section="Speed",
        task="chains, gaussian",
        conditions="The loss and its gradient, one thread, a process each. Direct forms of the most tokens "
        "are extrapolated by the square of the number of tokens.",
        rows=measured(({k: v for k, v in row.items() if k != "value"} for row in rows), units),
    )
    print(json.dumps({"rows": rows}, indent=1))


def measure(loss: str, form: str, tokens: int) -> dict[str, Any]:
    """Seconds (the least of some) and peak memory of a step, in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        seconds, memory, value = pool.apply(measure_here, (loss, form, tokens))
    row = {
        "loss": loss,
        "form": form,
        "tokens": tokens,
        "seconds": round(seconds, 4),
        "peak_mb": round(memory, 1),
        "value": round(value, 5),
    }
    log.info("%s", row)
    return row


def extrapolated(row: dict[str, Any], tokens: int) -> dict[str, Any]:
    """What so many tokens would cost, by the square of their number."""
    times = (tokens / row["tokens"]) ** 2
    return {
        "loss": row["loss"],
        "form": row["form"],
        "tokens": tokens,
        "seconds": round(row["seconds"] * times, 2),
        "peak_mb": round(row["peak_mb"] * times),
        "from": "extrapolated",
    }


def compared(row: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """How many times our time and memory a direct form takes."""
    return {f"times_{key}": round(row[key] / ours[key], 1) for key in ("seconds", "peak_mb")}


def measure_here(loss: str, form: str, tokens: int) -> tuple[float, float, float]:
    """CPU seconds, MB and the value of the loss."""
    torch.set_num_threads(1)
    meter, step = Meter("cpu", "float32"), partial(STEPS[loss, form], tokens)
    STEPS[loss, form](20)  # what the first call of an operation loads is not its cost
    value = step()
    memory = meter.peak_mb(step)
    return min(meter.seconds(step) for _ in range(REPEATS)), memory, value


def _inputs(tokens: int, width: int) -> Tensor:
    return torch.randn(tokens, width, generator=torch.Generator().manual_seed(0)).requires_grad_()


def _keys(tokens: int) -> Tensor:
    chains = torch.arange(tokens) // TOKENS_OF_A_CHAIN
    return torch.stack([chains, chains // CHAINS_OF_A_STORY], 1)


def _gaussians(tokens: int) -> Gaussians:
    mean, log_variance = _inputs(tokens, 2 * WIDTH["gaussians"]).chunk(2, 1)
    return Gaussians(0.5 * mean, (0.5 * log_variance).exp())


def _finish(total: Tensor, count: Tensor | int) -> float:
    loss = total / count
    loss.backward()
    return loss.item()


def chains(tokens: int) -> float:
    """InfoNCE by one matrix product and one log-sum-exp a row."""
    rows, keys = _inputs(tokens, WIDTH["chains"]), _keys(tokens)
    return _finish(*infonce(rows, rows, pairs(keys, keys, torch.arange(tokens)), TEMPERATURE))


def chains_direct(tokens: int) -> float:
    """InfoNCE from cosines of broadcast rows."""
    rows, keys = _inputs(tokens, WIDTH["chains"]), _keys(tokens)
    scores = F.cosine_similarity(rows[:, None], rows[None], dim=2) / TEMPERATURE
    positive = (keys[:, None] == keys).all(2) & ~torch.eye(tokens, dtype=torch.bool)
    below = scores.masked_fill(keys[:, None, 1] == keys[:, 1], -torch.inf).logsumexp(1, keepdim=True)
    terms = torch.logaddexp(scores, below) - scores
    return _finish(terms[positive].sum(), positive.sum())


def gaussians(tokens: int) -> float:
    """Divergences by one matrix product."""
    rows, labels = _gaussians(tokens), torch.arange(tokens) % LABELS
    return _finish(*gaussian_contrast(rows, rows, pairs(labels, labels, torch.arange(tokens))))


def gaussians_direct(tokens: int) -> float:
    """Divergences from broadcast rows, both directions of equation 2."""
    rows, labels = _gaussians(tokens), torch.arange(tokens) % LABELS
    (m, v), (n, w) = (part[:, None] for part in rows), (part[None] for part in rows)

    def divergence(m: Tensor, v: Tensor, n: Tensor, w: Tensor) -> Tensor:
        return 0.5 * (v / w + (m - n) ** 2 / w - 1 + w.log() - v.log()).sum(2)

    scores = -0.5 * (divergence(m, v, n, w) + divergence(n, w, m, v))
    itself = torch.eye(tokens, dtype=torch.bool)
    positive = (labels[:, None] == labels) & ~itself
    of_positives = scores.masked_fill(~positive, -torch.inf).logsumexp(1) - positive.sum(1).log()
    among = scores.masked_fill(itself, -torch.inf).logsumexp(1)
    return _finish((among - of_positives).sum(), tokens)


STEPS: dict[tuple[str, str], Callable[[int], float]] = {
    ("chains", "rayner"): chains,
    ("chains", "direct"): chains_direct,
    ("gaussians", "rayner"): gaussians,
    ("gaussians", "direct"): gaussians_direct,
}

if __name__ == "__main__":
    main()
