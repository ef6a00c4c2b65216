"""The documents of a recipe's corpus: as units that workers read, or all at once."""

from __future__ import annotations

import logging
import os
import pickle
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rayner.config import CorpusSettings
from rayner.config.recipe_files import corpus_paths
from rayner.counted import counted
from rayner.data.example_shards import canonical, canonical_digest
from rayner.data.readers import FileUnit, find_units
from rayner.data.scans import (
    DistinctDocuments,
    Part,
    Scan,
    cut_parts,
    cuts_of,
    digest,
    digest_of,
    is_large,
    keep,
    keep_cuts,
    load_cuts,
    load_scan,
    place_of_cuts,
    read_part,
    save_scan,
    scan,
    with_cuts,
)
from rayner.data.schema import Document
from rayner.data.split import are_of
from rayner.data.warned_once import warn_once
from rayner.errors import CorpusError, FileError
from rayner.files.uris import with_uris
from rayner.supervision.dictionaries import Dictionary, Name, label_document
from rayner.supervision.dictionary_files import read_dictionary
from rayner.tasks.base import ParallelMap, Unit
from rayner.tasks.numbered_parts import in_order_of_parts, numbered

log = logging.getLogger(__name__)
Split = Literal["train", "dev", "calibration"]
_LABELLING = 2
"""To be raised when a dictionary labels otherwise: what was kept of its labels is not taken up again."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a recipe makes of a document: its types renamed, and labels in place of its mentions.

    `digest` names all that it depends on. `annotated` are the types that paths were annotated for, by the
    names that the recipe has for them; labels say of themselves what they are for.
    """

    rename: Mapping[str, str]
    dictionary: Dictionary | None = None
    digest: str = ""
    annotated: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __call__(self, document: Document) -> Document:
        document = renamed(document, self.rename)
        if self.dictionary is None:
            return document
        return renamed(label_document(document, self.dictionary), self.rename)

    def at(self, document: Document, place: str) -> Document:
        """The same of a document that was read at a place, which tells what it was annotated for."""
        types, found = self.types_at(place), self(document)
        takes_types = types is not None and self.dictionary is None
        return replace(found, annotated_types=types) if takes_types else found

    def types_at(self, place: str) -> tuple[str, ...] | None:
        """What a place was annotated for; None where nothing is said of it."""
        # What comes from object storage lies elsewhere on each machine.
        place, found = with_uris(place), None
        for path, types in self.annotated:
            if place == path or place.startswith((path + os.sep, path + ":")):
                found = types
        return found


class FoundDocuments(NamedTuple):
    """The documents of a split as units, and what is in them.

    Attributes:
        mentions: of each type, those of that type; `fine_types`, those that have it among their gold types.
        stories: how many have a chain of two mentions.
    """

    units: list[Unit]
    mentions: Counter[str]
    fine_types: Counter[str]
    stories: int


class Chosen(NamedTuple):
    """Those documents of a part that are in a split: [N] bool."""

    split: Split
    part: Part
    rows: np.ndarray


def change_of(corpus: CorpusSettings, part: Split) -> Change:
    """What the recipe makes of a document of a split.

    Raises:
        CorpusError: a dictionary that cannot be read.
    """
    given = [
        (with_uris(str(corpus_paths([path])[0].absolute())), tuple(types))
        for path, types in corpus.annotated.items()
    ]
    # What was kept while these types were renamed, too, is made anew.
    were_renamed = any(name in corpus.rename for _, types in given for name in types)
    about = [corpus.rename, given, *([1] if were_renamed else [])] if given else corpus.rename
    if part == "dev" or corpus.dictionary is None:
        return Change(corpus.rename, None, canonical(about), tuple(given))
    names = _names(corpus, corpus.dictionary)
    digest = canonical_digest([_LABELLING, about, corpus.labels, names])
    return Change(corpus.rename, Dictionary(names, corpus.labels), digest, tuple(given))


def document_units(
    corpus: CorpusSettings,
    part: Split,
    change: Change,
    mapper: ParallelMap = map,
    folder: Path | None = None,
    apart: bool = False,
    calibration: float = 0,
) -> FoundDocuments:
    """The documents of a split as units: of each document, a few bytes are held.

    Args:
        change: that of the split.
        mapper: how the files are read, which is done once to see what is in them.
        folder: keeps what was seen of files, for as long as they do not change.
        apart: leave out of train what belongs to a story of dev, where the recipe names files of dev.
        calibration: the fraction of the training documents that is set apart, no group cut and no text in
            both parts. Dev is the same with it and without.

    Raises:
        RecipeError: a path that does not exist.
        CorpusError: a corpus without documents.
        FileError: a file that cannot be read.
    """
    none_of_dev = part == "dev" and not corpus.dev and not corpus.dev_fraction
    if none_of_dev or (part == "calibration" and not calibration):
        return FoundDocuments([], Counter(), Counter(), 0)
    named = corpus.dev if part == "dev" and corpus.dev else corpus.train
    parts, scans = _scanned(corpus, named, change, mapper, folder)
    keys = _keys(scans)
    kept = keep(keys)
    _tell_of_scans(named, parts, scans, kept)
    if not len(keys):
        nothing = (", ".join(named), "no documents in it", "remove it, or restore its content")
        raise CorpusError(*next((found.first for found in scans if found.first), nothing))
    rows = kept.rows
    rows[rows] = are_of(part, keys.filter(pa.array(rows)), corpus.dev_fraction, calibration)
    if apart and part == "train" and corpus.dev:
        of_dev = _keys(_scanned(corpus, corpus.dev, change_of(corpus, "dev"), mapper, folder)[1])
        held_out = rows & np.isin(keys["place"].to_numpy(), of_dev["place"].to_numpy())
        if count := np.count_nonzero(held_out):
            read = counted(int(np.count_nonzero(rows)), "document")
            log.info("not learned from, as dev has them: %d of %s", count, read)
        rows = rows & ~held_out
    stories = keys["place"].filter(pa.array(rows & keys["chained"].to_numpy()))
    units, mentions, fine_types = [], Counter[str](), Counter[str]()
    begins = np.cumsum([0, *(len(found.table) for found in scans)])
    for one, found, begin, end in zip(parts, scans, begins, begins[1:], strict=False):
        chosen = rows[begin:end]
        if not chosen.any():
            continue
        table = found.table.filter(pa.array(chosen))
        # A copy: a slice would be pickled with all that it was cut from.
        source = Chosen(part, one, chosen.copy())
        name = f"{digest_of(table['content'])} {change.digest}"
        if (types := change.types_at(one.units[0].paths[0])) is not None:
            name += " " + canonical(types)
        units.append(Unit(source, name, table["size"].to_numpy()))
        mentions.update(_counted(table["types"], found.types))
        fine_types.update(_counted(table["fine_types"], found.types))
    return FoundDocuments(units, mentions, fine_types, len(stories.unique()))


def read_documents(unit: Unit, change: Change) -> list[Document]:
    """The documents of one of `document_units`.

    Raises:
        FileError: a file that cannot be read, or was changed in the meantime.
    """
    source: Chosen = unit.source
    reading = read_part(source.part)
    found = reading.documents
    taken = [document for document, is_taken in zip(found, source.rows, strict=False) if is_taken]
    places = [place for place, is_taken in zip(reading.places, source.rows, strict=False) if is_taken]
    if len(found) != len(source.rows) or digest(taken) != unit.digest.split()[0]:
        first, *others = source.part.units
        where = first.paths[0] + (f" to {others[-1].paths[0]}" if others else "")
        what = "does not hold what it held when it was first read"
        raise FileError(where, what, "give all nodes the same files, and start again")
    return [change.at(document, place) for document, place in zip(taken, places, strict=True)]


def renamed(document: Document, names: Mapping[str, str]) -> Document:
    """The document with its types as the recipe calls them."""
    if not names:
        return document
    mentions = tuple(replace(m, type=names.get(m.type, m.type)) for m in document.mentions)
    types = document.annotated_types
    annotated = None if types is None else tuple(dict.fromkeys(names.get(t, t) for t in types))
    return replace(document, mentions=mentions, annotated_types=annotated)


def _scanned(
    corpus: CorpusSettings,
    named: Sequence[str],
    change: Change,
    mapper: ParallelMap,
    folder: Path | None,
) -> tuple[list[Part], list[Scan]]:
    # Absolute, because the workers of a cluster have another working directory.
    paths = [path.absolute() for path in corpus_paths(named)]
    parts = _parts(find_units(paths, corpus.format), change, mapper, folder)
    return parts, _scans(parts, change, mapper, folder)


def _keys(scans: Sequence[Scan]) -> pa.Table:
    """What is compared over all scans."""
    return pa.concat_tables([found.table.drop_columns(["types", "fine_types", "size"]) for found in scans])


def _counted(numbers: pa.ChunkedArray, names: Sequence[str]) -> Counter[str]:
    flat = numbers.combine_chunks().flatten().to_numpy()
    counts = np.bincount(flat, minlength=len(names)).tolist()
    return Counter({name: count for name, count in zip(names, counts, strict=True) if count})


def _parts(units: Sequence[FileUnit], change: Change, mapper: ParallelMap, folder: Path | None) -> list[Part]:
    """Files that were annotated for other types are in other parts."""
    large = [unit for unit in units if is_large(unit)]
    # Named before they are read: what changes in the meantime is cut anew the next time.
    places = {unit: None if folder is None else place_of_cuts(folder, unit) for unit in large}
    cut = {unit: with_cuts(unit, load_cuts(at)) for unit, at in places.items() if at and at.exists()}
    others = [unit for unit in large if unit not in cut]
    for unit, cuts in zip(others, in_order_of_parts(mapper, cuts_of, others), strict=True):
        if (place := places[unit]) is not None:
            keep_cuts(cuts, place)
        cut[unit] = with_cuts(unit, cuts)
    alike = groupby(units, lambda unit: change.types_at(unit.paths[0]))
    return [
        part
        for _, group in alike
        for part in cut_parts(piece for unit in group for piece in cut.get(unit, [unit]))
    ]


def _scans(parts: Sequence[Part], change: Change, mapper: ParallelMap, folder: Path | None) -> list[Scan]:
    """A scan of each part: those that are kept from an earlier time, and the others anew."""
    if folder is None:
        return in_order_of_parts(mapper, partial(scan, change), parts)
    paths = [folder / f"{part.key(change.digest)}.parquet" for part in parts]
    found = [load_scan(path) for path in paths]
    missing = [number for number, scanned in enumerate(found) if scanned is None]
    work = partial(numbered, partial(_pickled_scan, change))
    for number, scanned in mapper(work, [(n, parts[n]) for n in missing]):
        found[number] = one = pickle.loads(scanned)
        # Here: who reads the files may be on a machine that does not see the folder.
        save_scan(one, paths[number])
    pa.default_memory_pool().release_unused()  # Of the files: several times what the scans take.
    return [scanned for scanned in found if scanned is not None]


def _pickled_scan(change: Change, part: Part) -> bytes:
    """As bytes: a table from another process would lie in Ray's shared memory, which stays mapped."""
    return pickle.dumps(scan(change, part))


def _tell_of_scans(
    named: Sequence[str], parts: Sequence[Part], scans: Sequence[Scan], kept: DistinctDocuments
) -> None:
    """Say how much cannot be read, and what comes first."""
    rejected = sum(found.rejected for found in scans) + len(kept.clashes)
    # Of a corpus that is one fault the error says the same.
    if not rejected or (rejected == 1 and not any(len(found.table) for found in scans)):
        return
    where, what, _ = next((found.first for found in scans if found.first), None) or _clash(
        parts, scans, int(kept.clashes[0]), int(kept.owners[0])
    )
    here = f"{Path.cwd()}/"
    tell_rejects(named, rejected, f"{where.removeprefix(here)}: {what.replace(here, '')}")


def _clash(parts: Sequence[Part], scans: Sequence[Scan], row: int, owner: int) -> tuple[str, str, str]:
    (document_id, where), (_, other) = (_place(parts, scans, one) for one in (row, owner))
    return where, f"document {document_id!r} differs from the one at {other}", ""


def _place(parts: Sequence[Part], scans: Sequence[Scan], row: int) -> tuple[str, str]:
    """The id of a document, and where it is."""
    for part, found in zip(parts, scans, strict=True):
        if row < len(found.table):
            reading = read_part(part)
            return reading.documents[row].document_id, reading.places[row]
        row -= len(found.table)
    raise IndexError(row)


def tell_rejects(paths: Sequence[str], rejected: int, first: str) -> None:
    """Warn of documents and mentions that cannot be read, once in a process; `first` is one of them."""
    lost = counted(rejected, "document or mention", "documents or mentions")
    check = f"`{shlex.join(['rayner', 'corpus', 'check', *paths])}`"
    warn_once(log, f"cannot be read: {lost} ({check} tells more); the first: {first}")


def _names(corpus: CorpusSettings, path: str) -> Sequence[Name]:
    names: list[Any] = read_dictionary(corpus_paths([path])[0])
    if corpus.phrases is not None:
        names += [
            Name(name.name, None) for name in read_dictionary(corpus_paths([corpus.phrases])[0], "phrase")
        ]
    return names
