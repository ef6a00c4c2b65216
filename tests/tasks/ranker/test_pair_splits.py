"""Which pairs a ranker learns from, and what it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rayner.config import PairSettings
from rayner.data import scans
from rayner.data.readers import files
from rayner.errors import CorpusError, FileError
from rayner.supervision.context_rows import ContextRow, row_to_json
from rayner.tasks.base import Unit
from rayner.tasks.ranker.pair_splits import pair_units, read_unit


def pairs_in(folder: Path, relevant: Sequence[bool], dev_fraction: float = 0) -> PairSettings:
    """A file with a pair for each answer; each sentence is another one."""
    rows = [ContextRow(f"Sentence {number}.", "Context.", one) for number, one in enumerate(relevant)]
    path = folder / "pairs.jsonl"
    path.write_text("".join(row_to_json(row) + "\n" for row in rows), "utf-8")
    return PairSettings(train=(str(path),), dev_fraction=dev_fraction)


def rows_of(units: Iterable[Unit]) -> list[ContextRow]:
    return [row for unit in units for row in read_unit(unit)]


def test_dev_and_train_share_no_pair(tmp_path: Path) -> None:
    settings = pairs_in(tmp_path, [True, False] * 20, 0.25)
    train, dev = (rows_of(pair_units(settings, part)) for part in ("train", "dev"))
    assert len({*train, *dev}) == len(train) + len(dev) == 40
    assert len(train) > len(dev) > 0


def test_too_few_pairs_to_hold_some_out_are_told_by_the_key_that_asks_for_it(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^pairs\.dev_fraction: the split 'dev' would be empty") as caught:
        pair_units(pairs_in(tmp_path, [True, False], 0.01), "train")
    assert "pairs.dev" in caught.value.hint


@pytest.mark.parametrize(("relevant", "which"), [(True, "only"), (False, "no")])
def test_pairs_of_one_kind_teach_nothing(tmp_path: Path, relevant: bool, which: str) -> None:
    with pytest.raises(CorpusError, match=f"{which} relevant ones among 3 pairs"):
        pair_units(pairs_in(tmp_path, [relevant] * 3), "train")


def backwards(work: Any, parts: Sequence[Any]) -> Iterator[Any]:
    """As processes that end in any order."""
    return map(work, parts[::-1])


@pytest.mark.parametrize("dev_fraction", [0.0, 0.25])
def test_parts_of_a_large_file_hold_the_pairs_that_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dev_fraction: float
) -> None:
    settings = pairs_in(tmp_path, [True, False] * 40, dev_fraction)
    (whole,) = pair_units(settings, "train")
    for module in (files, scans):
        monkeypatch.setattr(module, "PART_BYTES", 500)
    parts = pair_units(settings, "train", backwards)
    assert len(parts) > 5
    assert rows_of(parts) == rows_of([whole])
    assert [size for part in parts for size in part.sizes] == list(whole.sizes)


def test_a_line_of_a_part_that_is_no_pair_is_told_by_its_number_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = pairs_in(tmp_path, [True, False] * 40)
    path = Path(settings.train[0])
    path.write_text(path.read_text("utf-8") + "[]\n", "utf-8")
    for module in (files, scans):
        monkeypatch.setattr(module, "PART_BYTES", 500)
    pair_units(settings, "train")
    assert f"1 line is no pair; the first: {path}:81: not a JSON object" in caplog.text


def test_a_file_that_was_changed_since_it_was_split_is_refused(tmp_path: Path) -> None:
    settings = pairs_in(tmp_path, [True, False] * 4, 0.3)
    (unit,) = pair_units(settings, "train")
    path = Path(settings.train[0])
    path.write_text(path.read_text("utf-8").replace("Context", "Another"), "utf-8")
    with pytest.raises(FileError, match="does not hold what it held"):
        read_unit(unit)
