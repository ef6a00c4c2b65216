"""Which pairs a ranker learns from, and what it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rayner.config import PairSettings
from rayner.errors import CorpusError
from rayner.supervision.context_rows import ContextRow, row_to_json
from rayner.tasks.pair_splits import split_pairs


def pairs_in(folder: Path, relevant: Sequence[bool], dev_fraction: float = 0) -> PairSettings:
    """A file with a pair for each answer; each sentence is another one."""
    rows = [ContextRow(f"Sentence {number}.", "Context.", one) for number, one in enumerate(relevant)]
    path = folder / "pairs.jsonl"
    path.write_text("".join(row_to_json(row) + "\n" for row in rows), "utf-8")
    return PairSettings(train=(str(path),), dev_fraction=dev_fraction)


def test_dev_and_train_share_no_pair(tmp_path: Path) -> None:
    settings = pairs_in(tmp_path, [True, False] * 20, 0.25)
    train, dev = split_pairs(settings, "train"), split_pairs(settings, "dev")
    assert len({*train, *dev}) == len(train) + len(dev) == 40
    assert len(train) > len(dev) > 0


def test_too_few_pairs_to_hold_some_out_are_told_by_the_key_that_asks_for_it(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"^pairs\.dev_fraction: the split 'dev' would be empty") as caught:
        split_pairs(pairs_in(tmp_path, [True, False], 0.01), "train")
    assert "pairs.dev" in caught.value.hint


@pytest.mark.parametrize(("relevant", "which"), [(True, "all"), (False, "none")])
def test_pairs_of_one_kind_teach_nothing(tmp_path: Path, relevant: bool, which: str) -> None:
    with pytest.raises(CorpusError, match=f"{which} of its 3 pairs are relevant"):
        split_pairs(pairs_in(tmp_path, [relevant] * 3), "train")
