"""Work that the workers of a training share out: done once, and known to all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from rayner.tasks import sharing
from rayner.tasks.sharing import blocks, fill
from tests.runtime.training.several_workers import spawn

CASES: dict[str, list[list[int]]] = {
    "uneven parts": [[9, 1, 4, 5, 7, 2], [0], [3, 8, 11], [6, 10]],
    "fewer parts than workers": [[1, 0, 2]],
    "an empty part": [[0, 1], [], [2]],
    "no part": [],
    "no row": [[]],
}
ROW_BYTES, SHARES_AT_ONCE = 8, 2


def rows_of(case: str) -> int:
    return sum(map(len, CASES[case]))


def fill_all(out: Path) -> None:
    """Fill rows by each case; leaves what this worker worked on, what it has, and what was exchanged."""
    all_gather = dist.all_gather
    for case, parts in CASES.items():
        seen: list[list[int]] = []
        sent: list[int] = []

        def work(part: np.ndarray, seen: list[list[int]] = seen) -> torch.Tensor:
            seen.append(part.tolist())
            return torch.stack([torch.from_numpy(part), -torch.from_numpy(part)], 1).int()

        def counting(found: list[Any], share: torch.Tensor, sent: list[int] = sent) -> None:
            sent.append(share.nbytes)
            all_gather(found, share)

        rows = torch.full((rows_of(case), 2), 99, dtype=torch.int32)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sharing, "BYTES", 2 * SHARES_AT_ONCE * ROW_BYTES)
            patch.setattr(dist, "all_gather", counting)
            fill(rows, [np.array(part, np.int64) for part in parts], work)
        row = {"seen": seen, "sent": sent, "rows": rows.tolist()}
        (out / f"{case}-{dist.get_rank()}.json").write_text(json.dumps(row))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """By case, what each of two workers left."""
    folder = tmp_path_factory.mktemp("shared")
    spawn(fill_all, 2, folder, folder)
    return {case: [json.loads((folder / f"{case}-{i}.json").read_text()) for i in range(2)] for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_each_part_is_worked_on_once_and_all_have_its_rows(found: Any, case: str) -> None:
    first, second = found[case]
    assert first["seen"] == CASES[case][::2]
    assert second["seen"] == CASES[case][1::2]
    assert first["rows"] == second["rows"] == [[i, -i] for i in range(rows_of(case))]


@pytest.mark.parametrize("case", CASES)
def test_rows_are_exchanged_a_bounded_number_at_a_time(found: Any, case: str) -> None:
    of_a_worker = max(rows_of_worker(case, number) for number in range(2))
    sizes = [len(part) * ROW_BYTES for part in blocks(of_a_worker, SHARES_AT_ONCE) if len(part)]
    assert found[case][0]["sent"] == found[case][1]["sent"] == sizes


def rows_of_worker(case: str, number: int) -> int:
    return sum(map(len, CASES[case][number::2]))


def test_without_a_process_group_one_worker_does_all() -> None:
    rows = torch.zeros(5)
    fill(rows, blocks(5, 2), lambda part: torch.from_numpy(part).float() + 1)
    assert rows.tolist() == [1, 2, 3, 4, 5]


def fill_on_one(out: Path) -> None:
    """The other worker does not take part."""
    rows = torch.zeros(5)
    if dist.get_rank():
        fill(rows, blocks(5, 2), lambda part: torch.from_numpy(part).float() + 1, together=False)
        (out / "alone.json").write_text(json.dumps(rows.tolist()))


def test_a_worker_may_do_all_by_itself(tmp_path: Path) -> None:
    spawn(fill_on_one, 2, tmp_path, tmp_path)
    assert json.loads((tmp_path / "alone.json").read_text()) == [1, 2, 3, 4, 5]
