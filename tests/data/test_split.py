"""Splits: the same everywhere, near the fractions, no group cut."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document
from rayner.data.split import are_of, split_keys, splits_of
from rayner.errors import CorpusError
from tests.whole_corpora import FRACTIONS, split


def split_of(document: Document, fractions: Mapping[str, float] = FRACTIONS, seed: int = 0) -> str:
    """The definition: the hash of the group, or else of the id, is a place on the fractions."""
    key = document.document_id if document.group is None else document.group
    place = int.from_bytes(hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()) / 2**64
    ends = zip(fractions, accumulate(fractions.values()), strict=True)
    return next((name for name, end in ends if place < end), list(fractions)[-1])


def _documents(count: int) -> list[Document]:
    return [Document(f"d{number}", f"x{number}") for number in range(count)]


def test_fractions_and_order() -> None:
    parts = split(_documents(2000))
    assert {name: round(len(part) / 2000, 1) for name, part in parts.items()} == {
        "train": 0.8,
        "dev": 0.1,
        "test": 0.1,
    }
    assert all(part == sorted(part, key=lambda d: int(d.document_id[1:])) for part in parts.values())


def test_a_split_is_a_function_of_the_document_and_never_moves() -> None:
    documents = _documents(50)
    names = {d.document_id: split_of(d) for d in documents}
    for ordered in (documents, documents[::-1], documents[::2] + documents[1::2]):
        parts = split(ordered)
        assert names == {d.document_id: name for name, part in parts.items() for d in part}
    assert [split_of(d) for d in documents[:12]] == EXPECTED
    assert [split_of(d, seed=1) for d in documents] != list(names.values())


EXPECTED = ["train"] * 4 + ["dev", "train", "dev"] + ["train"] * 5


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40))
def test_no_group_is_cut(groups: list[str]) -> None:
    documents = [Document(str(n), "x", group=group) for n, group in enumerate(groups)]
    parts = splits_of(split_keys(documents), {"train": 1.0})
    assert not parts.any()
    halves = {"train": 0.5, "dev": 0.5}
    names = [split_of(d, halves) for d in documents]
    if set(names) == set(halves):
        found = splits_of(split_keys(documents), halves)
        assert [list(halves)[number] for number in found] == names
        assert len(set(zip(groups, found.tolist(), strict=True))) == len(set(groups))


def test_documents_of_the_same_text_stay_together_unless_their_group_says_where() -> None:
    fractions = {"train": 0.5, "dev": 0.5}
    alone = {d.document_id: split_of(d, fractions) for d in _documents(40)}
    documents = [Document(f"d{n}", f"text  {n % 10}\n" if n % 2 else f"text {n % 10}") for n in range(40)]
    for ordered in (documents, documents[::-1]):
        parts = split(ordered, fractions)
        place_of = {d.document_id: name for name, part in parts.items() for d in part}
        assert place_of == {f"d{n}": alone[min(f"d{i}" for i in range(n % 10, 40, 10))] for n in range(40)}
    blank = [Document(f"d{n}", " ") for n in range(40)]
    assert {d.document_id for d in split(blank, fractions)["dev"]} == {
        name for name, part in alone.items() if part == "dev"
    }
    grouped = [Document(f"d{n}", "same", group=f"g{n}") for n in range(40)]
    assert all(len(part) > 5 for part in split(grouped, fractions).values())


def test_what_calibrates_cuts_through_dev_and_through_folds_and_through_no_group() -> None:
    documents = [
        Document(f"d{n}", f"x{n % 900}", group=f"g{n // 2}" if n < 500 else None) for n in range(2000)
    ]
    keys = split_keys(documents)
    of = {part: are_of(part, keys, 0.2, 0.1) for part in ("train", "dev", "calibration")}
    assert (np.sum(list(of.values()), axis=0) == 1).all()
    assert (of["dev"] == are_of("dev", keys, 0.2, 0)).all()
    stories = {
        part: {d.group or d.text for d, row in zip(documents, of[part], strict=True) if row} for part in of
    }
    assert not stories["train"] & stories["calibration"]
    folds = splits_of(keys, {str(fold): 0.2 for fold in range(5)})
    for fold in range(5):
        rest = keys.filter(pa.array(folds != fold))
        assert are_of("calibration", rest, 0, 0.1).mean() == pytest.approx(0.1, abs=0.03)
    with pytest.raises(CorpusError, match=r"calibration\.fraction: the split 'calibration' would be empty"):
        are_of("train", split_keys(documents[:2]), 0, 0.1)
    with pytest.raises(CorpusError, match=r"corpus\.dev_fraction: the split 'dev' would be empty"):
        are_of("train", split_keys(documents[:2]), 0.1, 0)


def test_errors() -> None:
    with pytest.raises(CorpusError, match="do not sum to 1"):
        split(_documents(9), {"train": 0.5, "dev": 0.4})
    with pytest.raises(CorpusError, match="would be empty"):
        split(_documents(1))
    with pytest.raises(CorpusError, match=r"empty \((\d+: \d+, ){10}\.\.\.\); give") as caught:
        split(_documents(9), {str(fold): 1 / 1000 for fold in range(1000)})
    assert len(str(caught.value)) < 300
    assert list(split(_documents(5), {"train": 1.0, "dev": 0.0})) == ["train", "dev"]
