"""Train, development and test parts that are the same on every machine and cut no group.

What decides the split of a document is a few bytes of it, so that no process has to hold a corpus to cut it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rayner.data.schema import Document, story_of
from rayner.data.string_hashes import fraction_of
from rayner.errors import CorpusError

KEY_SCHEMA = pa.schema([("document_id", pa.large_string()), ("place", pa.float64()), ("text", pa.binary(16))])
"""What decides the split of a document: `place` in [0, 1) by its group, or else its id; `text`, a hash that
is null where a group or an empty text leaves nothing to it."""

_PLACES = 1 << 20
_MOST_SHOWN = 10


def hash_of_text(document: Document) -> bytes:
    """The same for texts that differ in nothing but white space."""
    text = " ".join(document.text.split())
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=16).digest()


def split_keys(documents: Sequence[Document], seed: int = 0) -> pa.Table:
    """A row of `KEY_SCHEMA` for each document."""
    columns = {
        "document_id": [d.document_id.encode(errors="replace").decode() for d in documents],
        "place": [fraction_of(f"{seed}:{story_of(d)}") for d in documents],
        "text": [hash_of_text(d) if d.group is None and d.text.strip() else None for d in documents],
    }
    return pa.table(columns, schema=KEY_SCHEMA)


def splits_of(keys: pa.Table, fractions: Mapping[str, float], where: str = "fractions") -> np.ndarray:
    """The number of the split of each row of `split_keys`: [N], an error where a split would stay empty.

    Documents without a group that have the same text go where the one with the first id goes.

    Args:
        where: the setting that says the fractions, for errors.

    Raises:
        CorpusError: fractions that are none, or a split without a document.
    """
    if any(not 0 <= f <= 1 for f in fractions.values()) or not math.isclose(sum(fractions.values()), 1):
        raise CorpusError(where, f"{dict(fractions)} do not sum to 1", "give fractions of 1")
    places = keys["place"].to_numpy().copy()
    codes = codes_of(keys["text"])
    repeated = np.flatnonzero((codes >= 0) & (np.bincount(codes + 1, minlength=1)[codes + 1] > 1))
    if len(repeated):
        same = pa.table({"text": codes[repeated], "id": keys["document_id"].take(pa.array(repeated))})
        order = pc.sort_indices(same, sort_keys=[("text", "ascending"), ("id", "ascending")])  # pyright: ignore
        members = repeated[order]
        begins = np.flatnonzero(np.diff(codes[members], prepend=-1))
        places[members] = np.repeat(places[members[begins]], np.diff(begins, append=len(members)))
    found = _stretches(places, fractions)
    counts = dict(zip(fractions, np.bincount(found, minlength=len(fractions)).tolist(), strict=True))
    for name, count in counts.items():
        if not count and fractions[name] > 0:
            sizes = ", ".join(f"{key}: {value}" for key, value in list(counts.items())[:_MOST_SHOWN])
            sizes += ", ..." if len(counts) > _MOST_SHOWN else ""
            hint = "give it a larger fraction, or more documents or groups"
            raise CorpusError(where, f"the split {name!r} would be empty ({sizes})", hint)
    return found


def are_of(part: str, keys: pa.Table, dev: float, calibration: float) -> np.ndarray:
    """Which rows of `split_keys` are of `train`, of `dev` or of `calibration`: [N] bool.

    Args:
        part: one of the three.
        dev: the fraction that is held out; with 0 all rows are of `dev` as well as of the rest.
        calibration: the fraction of the rest that is set apart to calibrate by. It cuts through dev and
            through the folds of a sweep alike, and dev is the same with it and without.

    Raises:
        CorpusError: a part would be empty.
    """
    rows = np.ones(len(keys), bool)
    if dev:
        found = splits_of(keys, {"train": 1 - dev, "dev": dev}, "corpus.dev_fraction")
        rows = (found == 1) == (part == "dev")
    if calibration and part != "dev":
        rest = keys.filter(pa.array(rows))
        # The digits of a place after those that decide about dev and folds.
        places = pa.array(rest["place"].to_numpy() * _PLACES % 1)
        rest = rest.set_column(rest.schema.get_field_index("place"), "place", places)
        fractions = {"train": 1 - calibration, "calibration": calibration}
        found = splits_of(rest, fractions, "calibration.fraction")
        rows[rows] = (found == 1) == (part == "calibration")
    return rows


def codes_of(column: pa.ChunkedArray) -> np.ndarray:
    """A number for each value, counted from 0 in the order of their first rows; -1 for null: int64 [N]."""
    found = column.combine_chunks().dictionary_encode()
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    codes = found.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    del found
    # Arrow keeps what it has freed: here a table of all values.
    pa.default_memory_pool().release_unused()
    return codes


def _stretches(places: np.ndarray, fractions: Mapping[str, float]) -> np.ndarray:
    ends = list(accumulate(fractions.values()))
    found = np.searchsorted(ends, places, side="right")
    # Fractions such as 0.8, 0.1, 0.1 may sum to a little less than 1.
    last = max(number for number, fraction in enumerate(fractions.values()) if fraction > 0)
    return np.where(found == len(ends), last, found)


def parts_by(keys: Sequence[Document], fractions: Mapping[str, float], seed: int) -> np.ndarray:
    """The number of the part of each item, by a document in its place: equal ones go together.

    Raises:
        CorpusError: a part would be empty.
    """
    distinct = list(dict.fromkeys(keys))
    parts = splits_of(split_keys(distinct, seed), fractions)
    part_of = dict(zip(distinct, parts.tolist(), strict=True))
    return np.array([part_of[key] for key in keys], np.int64)
