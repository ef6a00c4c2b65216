"""The simulated annotation: which documents a cell has, and the differences of the orders."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import annotation_order as benchmark
from benchmarks.annotation_order import Cell
from benchmarks.figures import Figure
from rayner.data.schema import Document
from rayner.tasks.checkpoint import save_checkpoint
from tests.tasks.small import built, tagger

CORPUS = [Document(str(i), f"Zorn number {i} saw seas.") for i in range(20)]


def test_each_cell_comes_after_what_it_needs() -> None:
    planned = benchmark.cells([1, 2], [0.4, 0.1, 0.2])
    assert planned[:5] == [
        *(Cell(1, "random", fraction) for fraction in (0.1, 0.2, 0.4)),
        *(Cell(1, "ranked", fraction) for fraction in (0.2, 0.4)),
    ]
    assert len(planned) == 10
    assert len({cell.out(Path("runs")) for cell in planned}) == 10


def test_parts_lie_within_each_other(tmp_path: Path) -> None:
    first, more = Cell(1, "random", 0.1), Cell(1, "random", 0.2)
    few = benchmark.chosen(first, None, CORPUS, tmp_path)
    many = benchmark.chosen(more, first, CORPUS, tmp_path)
    assert (len(few), len(many)) == (2, 4)
    assert many[:2] == few
    task = tagger()
    save_checkpoint(first.out(tmp_path) / "best", task, built(task), {})
    ranked = benchmark.chosen(Cell(1, "ranked", 0.3), first, CORPUS, tmp_path)
    assert ranked[:2] == few
    assert len(set(ranked)) == 6
    assert benchmark.chosen(Cell(1, "ranked", 0.3), first, CORPUS, tmp_path) == ranked


def test_differences_are_seed_by_seed() -> None:
    f1 = {("random", 1): 0.5, ("random", 2): 0.7, ("ranked", 1): 0.6, ("ranked", 2): 0.9}
    found = {
        Cell(seed, order, 0.2): {"f1": value, "words": 10, "mentions": 3}
        for (order, seed), value in f1.items()
    }
    found[Cell(1, "random", 0.1)] = {"f1": 0.4, "words": 5, "mentions": 2}
    rows = benchmark.rows_of(found, [0.1, 0.2])
    assert [row["order"] for row in rows] == ["both", "random", "ranked", "ranked - random"]
    *_, difference = benchmark.figures(rows)
    assert rows[3]["f1"] == pytest.approx(0.15)
    assert difference["f1"] == Figure(value=15.0, unit="%", deviation=7.1, n=2, headline=True)
