"""The benchmark of abbreviations and lists of entities."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.linking_in_documents import BASE, WAYS, Asked, Linker, Way, interval, rows
from tests.tasks.standardizer.small_index import ENTITIES, SmallIndex, encode


def test_a_mention_is_answered_by_its_best_strings() -> None:
    index: Any = SmallIndex(ENTITIES)
    linker = Linker(index, encode, 0.0)
    linker.search(["PG", "Postgres", "nginx and MySQL", "nginx", "MySQL", "nginx MySQL"])
    asked = Asked(0, "PG", "Postgres", ("pg",))
    assert (
        linker.answer(asked, Way(asked="explained")) == linker.answer(asked, Way(asked="either")) == ("pg",)
    )
    both = Asked(0, "nginx and MySQL", "nginx and MySQL", ("ng", "my"))
    assert len(linker.answer(both, Way())) == 1
    assert linker.answer(both, Way(composites=True)) == ("ng", "my")
    assert sum(map(len, index.searched)) == 6


def test_differences_are_paired_and_documents_are_drawn_whole() -> None:
    gain, documents = np.array([1.0, 1.0, 0.0, 0.0]), np.array([7, 7, 9, 9])
    assert interval(gain, documents) == (0.0, 1.0)
    assert interval(np.zeros(3), np.arange(3)) == (0.0, 0.0)
    right = {name: [name != BASE, True] for name in WAYS}
    found = {**right, **{f"{name}: all": of for name, of in right.items()}}
    one = {"unseen": [True, False], "document": [0, 1], "composite": [False, True], "explained": [True, True]}
    table = {(row["mentions"], row["strings"]): SimpleNamespace(**row) for row in rows([{**one, **found}])}
    assert table["unseen", BASE].top_1 == 0
    assert (table["all", "composites"].top_1, table["all", "composites"].top_1_gain) == (1.0, 0.5)
    assert table["several entities", "composites"].count == 1
    assert table["all", "composites"].all_gain_interval[0] == pytest.approx(0.0)
