"""The table of neighbours, which the workers of a training make together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rayner.retrieval import exact
from rayner.runtime.training.distributed import rank, same_workers, world_size
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.task import StandardizerTask
from tests.runtime.training.several_workers import spawn
from tests.tasks.standardizer.small_names import small_recipe

LONG = "gene " * 300
NAMES = [f"{'very ' * (number % 7)}name {number}" for number in range(300)] + [LONG, "name 4", "name 4"]
"""Two blocks of entities, many batches of names; one is read in three parts, and two are equal."""


class Names:
    """Examples with nothing but the names of their entities, in the order of these."""

    lengths = np.full(len(NAMES), 5)
    groups = np.array([f"{number:04}" for number in range(len(NAMES))])

    def column(self, name: str, indices: np.ndarray) -> list[str]:
        assert name == "text"
        return [NAMES[index] for index in indices]


def small_task(folder: Path) -> StandardizerTask:
    values = small_recipe(folder / f"recipe{rank()}", groups={"neighbours": 5}, index={"search": "ivf"})
    return StandardizerTask(parse_recipe(values, "recipe"))  # type: ignore[arg-type]


def make_table(out: Path) -> None:
    """Leaves the table, the vectors of the names, and how often this worker read a row and asked for one."""
    task = small_task(out)
    torch.manual_seed(1)
    model = task.build().eval()
    read: Counter[str] = Counter()
    asked: list[int] = []
    kept: list[np.ndarray] = []
    encode, padded, nearest = task._encode_shared, task.padded, exact.nearest

    def encoding(model: torch.nn.Module, texts: Sequence[str]) -> np.ndarray:
        kept.append(encode(model, texts))
        return kept[0]

    def padding(rows: Sequence[np.ndarray]) -> Any:
        read.update(str(row.tolist()) for row in rows)
        return padded(rows)

    def searching(queries: torch.Tensor, *arguments: Any) -> Any:
        asked.append(len(queries))
        return nearest(queries, *arguments)

    task._encode_shared, task.padded = encoding, padding  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(exact, "nearest", searching)
        state = task.prepare_epoch(model, Names(), 0)
    assert state is not None
    torch.save((state["neighbours"], torch.from_numpy(kept[0])), out / f"{world_size()}-{rank()}.pt")
    counted: dict[str, Any] = {"read": dict(read), "asked": list(asked)}
    asked.clear()
    task._encode_shared = encode  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(exact, "nearest", searching)
        # The few names are several batches then.
        patch.setattr(exact, "QUERIES", 4)
        index = task._build_index(model)
    assert index.dense.approximate is not None
    lists = index.dense.approximate.nearest(index.dense.vectors, 5).tolist()
    counted |= {"assigned": sum(asked), "lists": lists}
    (out / f"{world_size()}-{rank()}.json").write_text(json.dumps(counted))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Any]:
    """What a worker of so many left: table, vectors, counts."""
    folder = tmp_path_factory.mktemp("tables")
    for workers in (1, 2):
        spawn(make_table, workers, folder / f"meeting{workers}", folder)

    def left(workers: int, number: int) -> Any:
        name = f"{workers}-{number}"
        return *torch.load(folder / f"{name}.pt"), json.loads((folder / f"{name}.json").read_text())

    return left


def test_two_workers_have_the_table_and_the_vectors_of_one_to_the_bit(made: Any) -> None:
    table, vectors, _ = made(1, 0)
    assert table.shape == (len(NAMES), 5)
    for number in range(2):
        of_both, theirs, _ = made(2, number)
        assert of_both.dtype == torch.int32
        assert of_both.equal(table)
        assert theirs.equal(vectors)


def test_each_name_is_encoded_by_one_worker(made: Any) -> None:
    one, first, second = (Counter(made(*worker)[2]["read"]) for worker in ((1, 0), (2, 0), (2, 1)))
    assert first + second == one
    assert one.total() == len(set(NAMES)) + 2
    # The numbers of names in a batch differ by their lengths.
    assert min(first.total(), second.total()) > 0.3 * one.total()


def test_each_entity_is_looked_for_by_one_worker(made: Any) -> None:
    one, first, second = (made(*worker)[2]["asked"] for worker in ((1, 0), (2, 0), (2, 1)))
    assert one == [256, 47]
    assert (first, second) == ([256], [47])


def test_two_workers_make_the_lists_of_one_and_each_a_part_of_them(made: Any) -> None:
    one, first, second = (made(*worker)[2] for worker in ((1, 0), (2, 0), (2, 1)))
    assert first["lists"] == second["lists"] == one["lists"]
    assert first["assigned"] + second["assigned"] == one["assigned"]
    assert min(first["assigned"], second["assigned"]) > 0.3 * one["assigned"]


def fail_on_one(out: Path, what: str) -> None:
    """The second worker fails while it encodes or searches; leaves what each raised."""
    task = small_task(out)
    number = rank()

    def broken(*_: Any) -> Any:
        raise ValueError("matrix of rank 0")

    try:
        with pytest.MonkeyPatch.context() as patch, torch.no_grad(), same_workers():
            if number:
                patch.setattr(
                    *{"encode": (task, "padded", broken), "search": (exact, "nearest", broken)}[what]
                )
            task.prepare_epoch(task.build().eval(), Names(), 0)
        ending = "nothing"
    except Exception as error:
        ending = f"{type(error).__name__}: {error}"
    (out / f"{what}-{number}").write_text(ending)


@pytest.mark.parametrize("what", ["encode", "search"])
def test_what_fails_on_one_worker_ends_both(tmp_path: Path, what: str) -> None:
    spawn(fail_on_one, 2, tmp_path, tmp_path, what)
    endings = [(tmp_path / f"{what}-{number}").read_text() for number in range(2)]
    assert endings == ["WorkerFailedError: worker 1 of 2 failed: ValueError: matrix of rank 0"] * 2
