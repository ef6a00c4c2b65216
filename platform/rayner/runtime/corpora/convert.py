"""What the commands `rayner corpus convert` and `rayner corpus label` do."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rayner.config import LabelSettings
from rayner.counted import counted
from rayner.data.example_shards import canonical_digest
from rayner.data.readers import FileUnit, find_units
from rayner.data.readers.detect import COUNTS, OF_A_CONVERSION, REJECTS
from rayner.data.readers.merge import TWICE
from rayner.data.schema import Document
from rayner.data.writers import WRITERS
from rayner.errors import CorpusError
from rayner.files.locks import LOCK, locked
from rayner.files.whole import write_json
from rayner.files.working import worked_on
from rayner.metrics.counts import marked_unknown
from rayner.metrics.spans import precision_recall_f1
from rayner.runtime.corpora.kept_parts import (
    SMALL_BYTES,
    Assembled,
    Change,
    Notes,
    assemble,
    cut_parts,
    mapper_for,
    read_parts,
    split_large,
    unchanged,
)
from rayner.runtime.corpora.part_folders import HIDDEN, Output
from rayner.runtime.corpora.taken import files_of_documents
from rayner.runtime.parallel import code_digest
from rayner.runtime.run_folder import check_apart, check_out
from rayner.supervision.dictionaries import Dictionary, Name, label_document
from rayner.supervision.dictionary_files import read_dictionary

SOURCES = (
    *("data/readers/*", "data/writers/*", "data/schema", "data/fine_types", "data/json_lines", "data/words"),
    *("data/example_shards", "data/mention_strings", "data/spacy_docs"),
    *("supervision/dictionaries", "metrics/counts", "runtime/corpora/convert", "runtime/corpora/kept_parts"),
)
"""The modules by which documents and labels of a dictionary come out as they do."""
_BESIDE = frozenset({LOCK, *OF_A_CONVERSION})
"""What lies beside the documents."""
DOING = "writes this corpus"
KEYS_OF_LOSSES = ("to", "lost")
KEYS = ("format", "documents", "mentions", "types", "repaired", "rejected", "duplicates", "seconds")

log = logging.getLogger(__name__)


def convert(
    inputs: Sequence[Path],
    out: Path,
    format: str = "auto",
    workers: int | None = None,
    fresh: bool = False,
    to: str = "parquet",
) -> dict[str, Any]:
    """Any format to Parquet or another: the documents, `rejects.jsonl` and `counts.json` in `out`.

    brat has two files a document, which bear its name; other formats have `documents-*`, of about 8 MiB of
    input each. What the format cannot hold is counted, and listed by document in `losses.jsonl`.

    A killed conversion goes on where it stopped; a finished one of the same files is not done again. On a
    cluster, inputs and output must be on storage that all nodes see, or at URIs.

    Args:
        workers: Ray tasks at once; 0 reads in this process, None decides by the size of the input.
        fresh: do everything again.
        to: a name of `rayner.data.writers.WRITERS`.

    Returns:
        `format, documents, mentions, types` (name -> mentions), `repaired, rejected, duplicates, seconds`;
        for formats other than Parquet `to` and `lost` (what -> how often), and the others count what was
        written.

    Raises:
        CorpusError: no document can be read, an unknown format, or `out` must not be written to.
        InputError: a package that the format needs is not installed.
    """
    if to not in WRITERS:
        raise CorpusError("--to", f"no format {to!r}", f"one of {', '.join(WRITERS)}")
    WRITERS[to].require()
    check_apart(inputs, out)
    units = find_units([Path(path).absolute() for path in inputs], format)
    return process(units, unchanged, "convert", out.absolute(), workers, fresh, to)[0]


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
    """Label a corpus with the names of a dictionary (papers/000, section 3), in place of its own mentions.

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
    check_apart([corpus, dictionary, *([phrases] if phrases is not None else [])], out)
    names = read_dictionary(dictionary, default_type)
    if phrases is not None:
        names += [Name(name.name, None) for name in read_dictionary(phrases, "phrase")]
    found = Dictionary(names, settings)
    purpose = canonical_digest([settings, names])
    units = find_units([corpus.absolute()])
    counts, notes = process(units, Labelling(found), f"label {purpose}", out.absolute(), workers, fresh)
    return {**counts, "names": len(found), **_scores(notes)}


@dataclass(frozen=True, slots=True)
class Labelling:
    """The change that labels a document, and notes the correct, found and gold mentions of each type, less
    those found where nobody knows what is right."""

    dictionary: Dictionary

    def __call__(self, document: Document) -> tuple[Document, Notes]:
        labelled = label_document(document, self.dictionary)
        annotated = document.annotated_types
        unknown = marked_unknown(document)
        notes: dict[str, tuple[int, int, int]] = {}
        for type_ in self.dictionary.types:
            if annotated is None or type_ in annotated:
                gold = _spans(document, type_)
                found = _spans(labelled, type_) - (unknown - gold)
                if found or gold:
                    notes[type_] = len(found & gold), len(found), len(gold)
        return labelled, notes


def _spans(document: Document, type_: str) -> set[tuple[int, int]]:
    return {(m.start, m.end) for m in document.mentions if m.type == type_}


def _scores(notes: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Precision, recall and F1 by type and over all, from (correct, found, gold), of types that have gold."""
    if not any(gold for _, _, gold in notes.values()):
        return {}
    for name, (_, found, gold) in notes.items():
        if not gold:
            what = "%s is not scored: the corpus has no mention of that type, beside %s"
            log.warning(what, name, counted(found, "label"))
    notes = {name: counts for name, counts in notes.items() if counts[2]}
    rows = {**notes, "": [sum(column) for column in zip(*notes.values(), strict=True)]}
    scores = {}
    for name, (correct, found, gold) in rows.items():
        counts = map(np.asarray, (correct, correct, found, gold))
        precision, recall, f1 = (float(score) for score in precision_recall_f1(*counts))
        scores[name] = {"precision": precision, "recall": recall, "f1": f1, "support": gold}
    overall = scores.pop("")
    return {**overall, "per_type": scores}


def process(
    units: Sequence[FileUnit],
    change: Change,
    purpose: str,
    out: Path,
    workers: int | None,
    fresh: bool,
    to: str = "parquet",
    small: int = SMALL_BYTES,
    part_bytes: int | None = None,
) -> tuple[dict[str, Any], Mapping[str, Sequence[int]]]:
    """Read units, change their documents, and put them together in `out`: the counts of `convert`, and notes.

    Args:
        change: what becomes of a document; a CorpusError rejects it.
        purpose: tells what is done with the documents; its first word is shown.
        small: inputs below are worked on in this process where `workers` is None.
        part_bytes: how much of the input is worked on together; of a large file, more.

    Raises:
        InputError: another process works in `out`.
    """
    with _opened(out, fresh) as output:
        started, folder = time.monotonic(), output.folder
        doing, purpose = purpose.split()[0], f"{purpose} {code_digest(*SOURCES)}"
        parts = cut_parts(units, purpose, part_bytes)
        key = canonical_digest([to, *(part.key for part in parts)])
        finished = _read_counts(folder)
        output.earlier = finished.get("to", "parquet") if finished else None
        if finished.get("key") == key and not fresh and _holds_documents(output, to, finished):
            log.info("%s is up to date", folder)
            # A run that was killed at its very end has left its parts.
            output.end()
            return {name: finished[name] for name in (*KEYS, *KEYS_OF_LOSSES) if name in finished}, finished[
                "notes"
            ]
        if finished and not fresh and {to, finished.get("to", "parquet")} != {"parquet"}:
            what = "holds a conversion of other files or in another format, on which someone may have worked"
            raise CorpusError(f"--out {folder}", what, "name another folder, or give --fresh to replace it")
        if fresh:
            output.forget_parts()
        mapper = mapper_for(parts, workers, small)
        parts = split_large(parts, purpose, output, mapper, part_bytes)
        read_parts(parts, change, output, mapper, doing)
        assembled = assemble(parts, output, to, mapper)
        if not assembled.documents:
            output.forget_parts()
            raise _nothing(folder, to, assembled)
        _warn("left out, as documents have no place for it", assembled.ignored)
        _warn(f"lost, as {to} has no place for it", assembled.lost)
        counts = _counts(
            ", ".join(dict.fromkeys(unit.format for unit in units)), assembled, time.monotonic() - started
        )
        if to != "parquet":
            counts |= {"to": to, "lost": dict(assembled.lost.most_common())}
        reasons = {"repaired": assembled.repaired, "ignored": assembled.ignored}
        files = files_of_documents(output.names(), to)
        finished = {**counts, "reasons": reasons, "key": key, "files": files, "notes": assembled.notes}
        write_json(folder / COUNTS, finished)
        output.end()
        return counts, assembled.notes


@contextmanager
def _opened(out: Path, fresh: bool) -> Iterator[Output]:
    """The place of a corpus, in which nobody else works meanwhile."""
    with worked_on(out, DOING, fresh) as (folder, publication):
        check_out(folder)
        _guard(folder)
        with locked(folder / LOCK, DOING) if publication is None else nullcontext():
            yield Output(folder, publication)


def _warn(what: str, counts: Counter[str]) -> None:
    if counts:
        log.warning("%s: %s", what, ", ".join(f"{name} ({count})" for name, count in counts.most_common()))


def _nothing(out: Path, to: str, assembled: Assembled) -> CorpusError:
    """The error of a corpus of which nothing can be written."""
    if not assembled.rejected:
        return CorpusError(f"--to {to}", f"holds none of the documents: {', '.join(assembled.lost)}")
    first = json.loads((out / REJECTS).read_text("utf-8").split("\n")[0])
    return CorpusError(first["where"], first["what"], first["hint"])


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


def _guard(out: Path) -> None:
    """Refuse an output with files of others, such as the rows of a context ranker and their counts."""
    if out.exists() and not out.is_dir():
        raise CorpusError(f"--out {out}", "is no folder", "name another")
    # Of a corpus of which nothing could be read, its rejects are left.
    if (
        out.exists()
        and not _is_ours(out)
        and any(path.name not in _BESIDE - {COUNTS} for path in out.iterdir())
    ):
        raise CorpusError(f"--out {out}", "holds files that are not from here", "name another folder")


def _is_ours(out: Path) -> bool:
    # An object that was lost at a URI is an empty file, where the work starts over.
    is_lost = (out / COUNTS).exists() and not (out / COUNTS).stat().st_size
    return is_lost or "key" in _read_counts(out) or (out / HIDDEN).exists()


def _holds_documents(output: Output, to: str, finished: Mapping[str, Any]) -> bool:
    """Whether a finished folder still has its files: who removed some would be told that all is done."""
    output.check_whole()
    # Who works on the files of another format may have taken some out.
    least = finished.get("files", 1) if to == "parquet" else 1
    return files_of_documents(output.names(), to) >= least


def _read_counts(out: Path) -> dict[str, Any]:
    try:
        return json.loads((out / COUNTS).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
