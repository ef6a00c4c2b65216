"""The plan of an epoch beside a loop over its examples: seconds, peak memory, padding.

    python -m benchmarks.plan_speed --examples 100000 1000000 10000000

Lengths are those of sentences, log-normal. Groups hold three examples on average, a third is alone;
entities have ten names and eight neighbours; stories hold four examples on average. Times are CPU seconds on
one thread. `again` is the part of an example's neighbours in a step that it has in the next epoch too.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.figures import add_out, measured, record
from benchmarks.meter import Meter
from rayner.data import batches, contrastive_groups, story_plans

BUDGET = 2000
GROUP_SIZE, GROUPS_PER_STEP = 10, 16
NEIGHBOURS = 8
SLOW = 1_000_000
"""As many examples as the loops are given at most."""

Steps = Sequence[np.ndarray]
log = logging.getLogger("plan_speed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each kind of plan, number of examples and method."""
    parser = argparse.ArgumentParser(description="Rows of the table of plans, as JSON.")
    parser.add_argument("--examples", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    add_out(parser, "plan_speed")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.INFO)
    rows = [row for number in chosen.examples for row in measure(number)]
    record(
        "plan_speed",
        chosen.out,
        title="The plan of an epoch",
        section="Speed",
        task="all",
        conditions="Log-normal lengths of sentences, groups of three examples on average, entities of ten "
        f"names, stories of four; {BUDGET} tokens a step. CPU seconds of one thread, beside a loop up to "
        f"{SLOW:,} examples.",
        rows=measured(rows, {"seconds": "s", "peak_mb": "MB", "padding": "%", "again": "%"}),
    )
    print(json.dumps({"rows": rows}, indent=1))


def measure(number: int) -> list[dict[str, Any]]:
    """The rows of so many examples."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(3.2, 0.6, number).astype(np.int32) + 2, 3, 256)
    groups = np.where(np.arange(number) % 3 == 0, -1, rng.integers(0, max(1, number // 4), number))
    entities = rng.integers(0, max(1, number // 10), number)
    names = np.array([f"entity {code}" for code in entities], object)

    def planned(groups: np.ndarray | None) -> Callable[[int], Steps]:
        return lambda epoch: batches.plan(lengths, groups, 1, epoch, BUDGET)

    def looped(groups: np.ndarray | None) -> Callable[[int], Steps]:
        return lambda epoch: plan_by_loop(lengths, groups, 1, epoch, BUDGET)

    def of_entities(entities: np.ndarray) -> Callable[[int], Steps]:
        return lambda epoch: contrastive_groups.plan(entities, 1, epoch, GROUP_SIZE, GROUPS_PER_STEP, True)

    of_stories = np.sort(rng.integers(0, max(1, number // 4), number))
    near = rng.integers(0, entities.max() + 1, (entities.max() + 1, NEIGHBOURS))

    def beside(epoch: int) -> Steps:
        return contrastive_groups.plan(entities, 1, epoch, GROUP_SIZE, GROUPS_PER_STEP, True, near)

    methods = [
        ("whole stories", "rayner", lambda epoch: story_plans.plan(lengths, of_stories, 1, epoch, BUDGET)),
        ("groups beside neighbours", "rayner", beside),
        ("lengths", "rayner", planned(None)),
        ("lengths and groups", "rayner", planned(groups)),
        ("groups of an entity, numbered", "rayner", of_entities(entities)),
        ("groups of an entity, named", "rayner", of_entities(names)),
    ]
    if number <= SLOW:
        methods += [
            ("lengths", "loop", looped(None)),
            ("lengths and groups", "loop", looped(groups)),
            ("groups of an entity, named", "loop", lambda epoch: groups_by_loop(names, 1, epoch)),
        ]
    rows = [row(kind, method, lengths, plan) for kind, method, plan in methods]
    return [*rows, *forward_rows(lengths)]


def row(kind: str, method: str, lengths: np.ndarray, plan: Callable[[int], Steps]) -> dict[str, Any]:
    """Plan two epochs: the first for time and memory."""
    meter, made, seconds = Meter("cpu", "float32"), [], []

    def timed() -> None:
        begin = time.process_time()
        made.append(plan(0))
        seconds.append(time.process_time() - begin)

    memory = meter.peak_mb(timed)
    steps, later = made[0], plan(1)
    measured = {
        "kind": kind,
        "method": method,
        "examples": len(lengths),
        "seconds": round(seconds[0], 3),
        "peak_mb": round(memory),
        "steps": len(steps),
        "steps_of_next_epoch": len(later),
        "padding": round(padding(steps, lengths), 4),
        "again": round(again(steps, later, len(lengths)), 3),
    }
    log.info("%s", measured)
    return measured


def forward_rows(lengths: np.ndarray) -> list[dict[str, Any]]:
    """The cut of all examples into forward passes."""
    indices = np.arange(len(lengths))
    methods = [("rayner", batches.forwards)] + [("loop", forwards_by_loop)] * (len(lengths) <= SLOW)
    rows = []
    for method, cut in methods:
        begin = time.process_time()
        parts = cut(indices, lengths, BUDGET)
        seconds = time.process_time() - begin
        rows.append(
            {
                "kind": "forward passes",
                "method": method,
                "examples": len(lengths),
                "seconds": round(seconds, 3),
                "steps": len(parts),
                "padding": round(padding(parts, lengths), 4),
            }
        )
        log.info("%s", rows[-1])
    return rows


def padding(steps: Steps, lengths: np.ndarray) -> float:
    """The padded tokens beside the real ones, as a fraction of these."""
    order, sizes = np.concatenate(steps), np.fromiter(map(len, steps), np.int64, len(steps))
    of_order = lengths[order].astype(np.int64)
    longest = np.maximum.reduceat(of_order, np.cumsum(sizes) - sizes)
    return float((longest * sizes).sum() / of_order.sum() - 1)


def again(steps: Steps, later: Steps, number: int) -> float:
    """The part of the pairs of a step that are together in the next epoch too; of the first 1,000 steps."""
    step_of = np.empty(number, np.int64)
    for place, step in enumerate(later):
        step_of[step] = place
    pairs = kept = 0
    for step in steps[:1000]:
        _, counts = np.unique(step_of[step], return_counts=True)
        pairs += len(step) * (len(step) - 1)
        kept += int((counts * (counts - 1)).sum())
    return kept / max(1, pairs)


def plan_by_loop(
    lengths: np.ndarray, groups: np.ndarray | None, seed: int, epoch: int, budget: int
) -> list[np.ndarray]:
    """Sort by noisy lengths and fill a step until one more example would be over the budget."""
    rng = np.random.default_rng([seed, epoch])
    units = _units(groups, len(lengths))
    longest = np.array([lengths[unit].max() for unit in units])
    order = np.argsort(longest * rng.uniform(0.95, 1.05, len(units)), kind="stable")
    steps: list[list[np.ndarray]] = []
    width = rows = 0
    for index in order:
        unit = units[index]
        new_width = max(width, int(longest[index]))
        if not steps or new_width * (rows + len(unit)) > budget:
            steps.append([])
            new_width, rows = int(longest[index]), 0
        steps[-1].append(unit)
        width, rows = new_width, rows + len(unit)
    return [np.concatenate(steps[i]) for i in rng.permutation(len(steps))]


def _units(groups: np.ndarray | None, count: int) -> list[np.ndarray]:
    if groups is None:
        return list(np.arange(count)[:, None])
    members: dict[int, list[int]] = {}
    for index, group in enumerate(groups.tolist()):
        members.setdefault(-index - 1 if group < 0 else group, []).append(index)
    return [np.array(group) for group in members.values()]


def groups_by_loop(entities: np.ndarray, seed: int, epoch: int) -> list[np.ndarray]:
    """Shuffle and cut entity by entity."""
    rng = np.random.default_rng([seed, epoch])
    members: dict[str, list[int]] = {}
    for index, entity in enumerate(entities.tolist()):
        members.setdefault(entity, []).append(index)
    groups: list[np.ndarray] = []
    for indices in map(np.array, members.values()):
        others, size = rng.permutation(indices[1:]), GROUP_SIZE - 1
        cuts = [others[i : i + size] for i in range(0, len(others), size)] or [others]
        groups += [np.concatenate([indices[:1], cut]) for cut in cuts]
    order = rng.permutation(len(groups))
    borders = range(0, len(order) + GROUPS_PER_STEP, GROUPS_PER_STEP)
    steps = [order[begin:end] for begin, end in pairwise(borders)]
    return [np.unique(np.concatenate([groups[i] for i in step])) for step in steps]


def forwards_by_loop(indices: np.ndarray, lengths: np.ndarray, budget: int) -> list[np.ndarray]:
    """The cheapest cut, sought at every row."""
    order = indices[np.argsort(lengths[indices], kind="stable")]
    widths = np.maximum(1, lengths[order])
    earliest = np.maximum(0, np.arange(1, len(order) + 1) - np.maximum(1, budget // widths))
    least, begins = np.zeros(len(order) + 1), np.zeros(len(order), dtype=int)
    for last, (width, first) in enumerate(zip(widths, earliest, strict=True)):
        from_each = least[first : last + 1] + width * np.arange(last + 1 - first, 0, -1)
        begins[last] = first + from_each.argmin()
        least[last + 1] = from_each[begins[last] - first] + batches.COST_OF_A_FORWARD
    borders = []
    last = len(order) - 1
    while begins[last]:
        borders.append(begins[last])
        last = begins[last] - 1
    return np.split(order, borders[::-1])


if __name__ == "__main__":
    main()
