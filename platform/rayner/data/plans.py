"""The steps of an epoch as two arrays, and the groups of its examples as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Sequence[np.ndarray]):
    """Steps, each the indices of its examples, as views of one array.

    `order`: int32 or int64 [N], the indices, step by step. `borders`: int64 [S + 1], where the steps begin in
    `order` and where the last one ends. A slice is a plan too, over the same array.
    """

    order: np.ndarray
    borders: np.ndarray

    def __len__(self) -> int:
        return len(self.borders) - 1

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> Plan: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | Plan:
        if isinstance(index, slice):
            begin, end, stride = index.indices(len(self))
            if stride != 1:
                raise ValueError(f"the steps of a plan are sliced one after another, not by {stride}")
            return Plan(self.order, self.borders[begin : max(begin, end) + 1])
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"step {index} of {len(self)}")
        return self.order[self.borders[place] : self.borders[place + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[place] for place in range(len(self)))


def group_codes(groups: Sequence[str | None] | np.ndarray) -> np.ndarray:
    """[N] int32 codes of groups: 0, 1, ... in the order in which they first occur; -1 is alone.

    Args:
        groups: [N] names, None for an example that is alone; or an array of integers, negative for such
            an example.
    """
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iu":
        values = pa.array(groups, mask=groups < 0)
    else:
        values = pa.array(groups)
    if pa.types.is_null(values.type):
        return np.full(len(values), -1, np.int32)
    codes = values.dictionary_encode().indices
    return pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)


def places_by(keys: np.ndarray) -> np.ndarray:
    """`numpy.argsort(keys, kind="stable")` of integers from 0, several times faster where they are small.

    A key and its place are sorted as one number, so that no two are equal and every machine finds one order.
    """
    bits = max(1, len(keys) - 1).bit_length()
    if not len(keys) or int(keys.max()).bit_length() + bits > 63:
        return np.argsort(keys, kind="stable")
    places = np.left_shift(keys, bits, dtype=np.int64)
    places |= np.arange(len(keys))
    places.sort()
    places &= (1 << bits) - 1
    return places


def ranges(begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """`begin, ..., begin + size - 1` of each, one after another."""
    before = np.cumsum(sizes) - sizes
    found = np.repeat(begins - before, sizes)
    found += np.arange(len(found))
    return found


def units_of(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The examples [N] unit by unit, and how many each has [U]: groups, and examples that are alone (< 0)."""
    alone = np.flatnonzero(codes < 0)
    units = codes.copy()
    units[alone] = codes.max(initial=-1) + 1 + np.arange(len(alone))
    return places_by(units), np.bincount(units)


def rounded_up(sizes: np.ndarray, bits: int) -> np.ndarray:
    """To classes less than `2 ** (1 - bits)` apart, so that few units are alone in theirs."""
    finest = np.left_shift(1, np.maximum(np.frexp(sizes)[1] - bits, 0))
    return -(-sizes // finest) * finest
