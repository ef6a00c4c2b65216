"""What the `rayner corpus` verbs do: convert, check and label."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rayner.config import LabelSettings
from rayner.data.example_shards import canonical
from rayner.data.readers import Unit, find_units
from rayner.data.readers.merge import TWICE
from rayner.data.schema import Document
from rayner.data.writers.base import whole_file
from rayner.errors import CorpusError
from rayner.metrics.spans import precision_recall_f1
from rayner.runtime.corpora.check import check
from rayner.runtime.corpora.parts import (
    Assembled,
    Change,
    Notes,
    assemble,
    cut_parts,
    read_parts,
    remove_parts,
    size_of,
    unchanged,
)
from rayner.runtime.pipeline import code_digest
from rayner.runtime.run_folder import check_out
from rayner.supervision.dictionaries import Dictionary, Name, label_document
from rayner.supervision.dictionary_files import read_dictionary

__all__ = ["check", "convert", "label"]

SMALL_BYTES = 64 * 2**20
"""Inputs below this are read faster in this process than Ray starts."""

COUNTS = "counts.json"
KEYS = ("format", "documents", "mentions", "types", "repaired", "rejected", "duplicates", "seconds")

log = logging.getLogger(__name__)


def convert(
    inputs: Sequence[Path], out: Path, format: str = "auto", workers: int | None = None, fresh: bool = False
) -> dict[str, Any]:
    """Any format to Parquet: `documents-*.parquet`, `rejects.jsonl` and `counts.json` in `out`.

    A killed conversion goes on where it stopped; a finished one of the same files is not done again. On a
    cluster, inputs and output must be on storage that all nodes see.

    Args:
        workers: Ray tasks at once; 0 reads in this process, None decides by the size of the input.
        fresh: do everything again.

    Returns:
        `format, documents, mentions, types` (name -> mentions), `repaired, rejected, duplicates, seconds`.

    Raises:
        CorpusError: no document can be read, or `out` must not be written to.
    """
    units = find_units([Path(path).absolute() for path in inputs], format)
    return _process(units, unchanged, "convert", out.absolute(), workers, fresh)[0]


def label(
    corpus: Path,
    dictionary: Path,
    out: Path,
    settings: LabelSettings | None = None,
    default_type: str | None = None,
    phrases: Path | None = None,
    workers: int | None = None,
    fresh: bool = False,
) -> dict[str, Any]:
    """Label a corpus with the names of a dictionary (papers/000, section 3.1), in place of its own mentions.

    Args:
        default_type: the type of names for which the dictionary has none.
        phrases: a file of names without types: they are found, but not labelled, so that no shorter name is
            found within them.
        out, workers, fresh: as `convert`.

    Returns:
        What `convert` returns, with `names`, and where the corpus has mentions of the dictionary's types,
        `precision, recall, f1` and `per_type` of the labels against them.

    Raises:
        CorpusError: as `convert`; a dictionary that cannot be read.
    """
    settings = settings or LabelSettings()
    names = read_dictionary(dictionary, default_type)
    if phrases is not None:
        names += [Name(name.name, None) for name in read_dictionary(phrases, "phrase")]
    found = Dictionary(names, settings)
    purpose = hashlib.sha256(canonical([settings, names]).encode()).hexdigest()
    units = find_units([corpus.absolute()])
    counts, notes = _process(units, Labelling(found), f"label {purpose}", out.absolute(), workers, fresh)
    return {**counts, "names": len(found), **_scores(notes)}


@dataclass(frozen=True, slots=True)
class Labelling:
    """The change that labels a document, and notes the correct, found and gold mentions of each type."""

    dictionary: Dictionary

    def __call__(self, document: Document) -> tuple[Document, Notes]:
        labelled = label_document(document, self.dictionary)
        annotated = document.annotated_types
        notes: dict[str, tuple[int, int, int]] = {}
        for type_ in self.dictionary.types:
            if annotated is None or type_ in annotated:
                found, gold = _spans(labelled, type_), _spans(document, type_)
                if found or gold:
                    notes[type_] = len(found & gold), len(found), len(gold)
        return labelled, notes


def _spans(document: Document, type_: str) -> set[tuple[int, int]]:
    return {(m.start, m.end) for m in document.mentions if m.type == type_}


def _scores(notes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Precision, recall and F1 by type and over all, from (correct, found, gold); nothing without gold."""
    if not any(gold for _, _, gold in notes.values()):
        return {}
    rows = {**notes, "": [sum(column) for column in zip(*notes.values(), strict=True)]}
    scores = {}
    for name, (correct, found, gold) in rows.items():
        counts = map(np.asarray, (correct, correct, found, gold))
        precision, recall, f1 = (float(score) for score in precision_recall_f1(*counts))
        scores[name] = {"precision": precision, "recall": recall, "f1": f1, "support": gold}
    overall = scores.pop("")
    return {**overall, "per_type": scores}


def _process(
    units: Sequence[Unit], change: Change, purpose: str, out: Path, workers: int | None, fresh: bool
) -> tuple[dict[str, Any], Mapping[str, Sequence[int]]]:
    started = time.monotonic()
    check_out(out)
    _guard(units, out)
    parts = cut_parts(units, f"{purpose} {code_digest('data', 'data/readers', 'supervision')}")
    key = hashlib.sha256(canonical([part.key for part in parts]).encode()).hexdigest()
    finished = _read_counts(out)
    if finished.get("key") == key and not fresh:
        log.info("%s is up to date", out)
        return {name: finished[name] for name in KEYS}, finished["notes"]
    if fresh:
        remove_parts(out)
    read_parts(parts, change, out, _workers(units, workers), purpose.split()[0])
    # Until all is in its place again, the folder does not count as finished.
    (out / COUNTS).unlink(missing_ok=True)
    assembled = assemble(parts, out)
    if not assembled.documents:
        remove_parts(out)
        first = json.loads((out / "rejects.jsonl").read_text("utf-8").split("\n")[0])
        raise CorpusError(first["where"], first["what"], first["hint"])
    if assembled.ignored:
        rest = ", ".join(f"{what} ({count})" for what, count in assembled.ignored.most_common())
        log.warning("left out, as documents have no place for it: %s", rest)
    counts = _counts(
        ", ".join(dict.fromkeys(unit.format for unit in units)), assembled, time.monotonic() - started
    )
    reasons = {"repaired": assembled.repaired, "ignored": assembled.ignored}
    finished = {**counts, "reasons": reasons, "key": key, "notes": assembled.notes}
    with whole_file(out / COUNTS) as path:
        path.write_text(json.dumps(finished, ensure_ascii=False, indent=1), "utf-8")
    remove_parts(out)
    return counts, assembled.notes


def _counts(format: str, assembled: Assembled, seconds: float) -> dict[str, Any]:
    mentions, repaired = assembled.mentions, assembled.repaired
    values = (
        format,
        assembled.documents,
        mentions.total(),
        dict(mentions.most_common()),
        repaired.total(),
        assembled.rejected,
        repaired[TWICE],
        round(seconds, 3),
    )
    return dict(zip(KEYS, values, strict=True))


def _guard(units: Sequence[Unit], out: Path) -> None:
    """Refuse an output among the inputs, which a second run would read, and one with documents of others."""
    for unit in units:
        for path in map(Path, unit.paths):
            if path.is_relative_to(out):
                raise CorpusError(f"--out {out}", f"holds the input {path}", "name another folder")
    ours = (out / COUNTS).exists() or any(out.glob(".parts"))
    if not ours and any(out.glob("documents-*.parquet")):
        raise CorpusError(f"--out {out}", "holds documents that are not from here", "name another folder")


def _read_counts(out: Path) -> dict[str, Any]:
    try:
        return json.loads((out / COUNTS).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def _workers(units: Sequence[Unit], workers: int | None) -> int | None:
    return 0 if workers is None and (size_of(units) < SMALL_BYTES or len(units) == 1) else workers
