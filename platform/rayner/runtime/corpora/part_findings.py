"""A part of a corpus, checked by whichever process: what it holds, and what is wrong in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from rayner.config import DocumentRecipe
from rayner.data.corpus_check import (
    DocumentPlace,
    Finding,
    Overlap,
    document_findings,
    width_findings,
    without_words,
)
from rayner.data.example_shards import content_hash
from rayner.data.fine_types import gold_types
from rayner.data.readers import FileUnit, merge
from rayner.data.scans import Part
from rayner.data.schema import Document, Span
from rayner.data.split import hash_of_text
from rayner.data.windows import locate, split_into_subwords
from rayner.data.words import words_of
from rayner.models.tokenizer import Tokenizer, load_tokenizer
from rayner.runtime.corpora.kept_parts import read_patiently
from rayner.tasks.splits import Change

MOST_LISTED = 10_000
"""Findings of one kind and severity that are listed; more are counted."""

SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("text", pa.binary()),
        ("group", pa.string()),
        ("place", pa.string()),
        ("file", pa.string()),
        ("digest", pa.binary()),
    ]
)
"""Of a document: a hash of its text, null where that is empty; the file and the hash of all of it where other
parts hold documents of the same file."""
_AS_THEY_ARE = Change({})
_PLACE = SCHEMA.get_field_index("place")


class SplitPart(NamedTuple):
    """Files, or a part of a large file, of a split.

    Attributes:
        left_out: the documents, by number, that the same file holds before.
    """

    number: int
    split: str
    of: Part
    left_out: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return str(self.of)


class Listed:
    """Findings as JSON objects, in order: the first of each kind and severity, and how many there are."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self._listed: Counter[tuple[str, str]] = Counter()

    def add(self, finding: Finding, number: int = 0) -> None:
        """A finding, with the number of its document."""
        key = finding.severity, finding.kind
        self.counts[key] += 1
        if self._listed[key] < MOST_LISTED:
            self._list(key, asdict(finding), number)

    def add_listed(self, rows: Iterable[dict[str, Any]], counts: Counter[tuple[str, str]]) -> None:
        """Findings that were listed, and how many there are."""
        for row in rows:
            key = row["severity"], row["kind"]
            if self._listed[key] < MOST_LISTED:
                self._list(key, row, 0)
        self.counts.update(counts)

    def _list(self, key: tuple[str, str], row: dict[str, Any], number: int) -> None:
        self._listed[key] += 1
        self.rows.append((number, row))


@dataclass(slots=True)
class Seen:
    """A part of a corpus as it was looked at.

    Attributes:
        documents: a row of `SCHEMA` for each.
        types: how many of the mentions have each type; `used` is where each one is first.
        own: what is wrong with documents by themselves.
        rejects: what could not be read.
        clashes: documents that differ from the one that has their id in their file.
    """

    documents: pa.Table
    mentions: int = 0
    types: Counter[str] = field(default_factory=Counter)
    used: dict[str, str] = field(default_factory=dict)
    repaired: int = 0
    own: Listed = field(default_factory=Listed)
    rejects: Listed = field(default_factory=Listed)
    clashes: Listed = field(default_factory=Listed)


@dataclass(frozen=True, slots=True)
class PartCheck:
    """Checks a part, and gives its number and what was seen.

    Attributes:
        changes: what the recipe makes of the documents of a split; those of others stay as they are.
        recipe: with it, mentions in documents without a word are found, and with `limit`, mentions of more
            sub-words than that.
        base: what the place of a file begins with, where it was given without.
        fine: whether types are the gold types that a typer learns of a mention.
    """

    changes: Mapping[str, Change]
    overlap: Overlap
    recipe: DocumentRecipe | None
    limit: int | None
    base: str
    fine: bool = False

    def __call__(self, part: SplitPart) -> tuple[int, Seen]:
        seen = Seen(SCHEMA.empty_table())
        rows: list[tuple[Any, ...]] = []
        change = self.changes.get(part.split, _AS_THEY_ARE)
        found = chain.from_iterable(self._read(unit, part.split, seen) for unit in part.of.units)
        for number, (document, row) in enumerate(found):
            if number not in part.left_out:
                self._add(change(document), row[_PLACE], part.split, len(rows), seen)
                rows.append(row)
        part.of.check_unchanged()
        if rows:
            seen.documents = pa.Table.from_arrays(
                [pa.array(v, f.type) for v, f in zip(zip(*rows, strict=True), SCHEMA, strict=True)],
                schema=SCHEMA,
            )
        return part.number, seen

    def _read(self, unit: FileUnit, split: str, seen: Seen) -> Iterator[tuple[Document, tuple[Any, ...]]]:
        """The documents of a file, each once where it is not cut, and their rows of `SCHEMA`."""
        reading = read_patiently(unit, kept=False)
        rejected = len(reading.rejects)
        if unit.span is None:
            reading = merge([reading])
        for number, reject in enumerate(reading.rejects):
            where, what = self._shown(reject.where), reject.what.replace(self.base, "")
            listed = seen.rejects if number < rejected else seen.clashes
            listed.add(unreadable(where, what, reject.hint, reject.document_id, split))
        seen.repaired += reading.repaired.total()
        file = unit.paths[0] if unit.span else None
        for document, place in zip(reading.documents, reading.places, strict=True):
            text = hash_of_text(document) if document.text.strip() else None
            digest = content_hash(document) if file else None
            shown = self._shown(str(place))
            yield document, (document.document_id, text, document.group, shown, file, digest)

    def _add(self, document: Document, place: str, split: str, number: int, seen: Seen) -> None:
        here = place_of(split, document.document_id, place)
        for finding in document_findings(document, here, self.overlap):
            seen.own.add(finding, number)
        if self.recipe is not None and document.mentions:
            for finding in self._word_findings(document, here, self.recipe):
                seen.own.add(finding, number)
        seen.mentions += len(document.mentions)
        for mention in document.mentions:
            for name in gold_types(mention) if self.fine else (mention.type,):
                seen.types[name] += 1
                seen.used.setdefault(name, here.where)

    def _word_findings(
        self, document: Document, here: DocumentPlace, recipe: DocumentRecipe
    ) -> Iterable[Finding]:
        words = words_of(document, recipe.windows.words)
        if not words:
            return [without_words(document, here)]
        if not self.limit:
            return []
        return width_findings(document, here, _widths(document, words, recipe.encoder), self.limit)

    def _shown(self, place: str) -> str:
        return place.removeprefix(self.base)


def place_of(split: str, document_id: str, place: str) -> DocumentPlace:
    """Where a document is, as findings name it."""
    return DocumentPlace(split, document_id, f"{place} ({split}: {document_id})")


def unreadable(where: str, what: str, hint: str, document_id: str | None, split: str) -> Finding:
    """The finding of a reject."""
    return Finding("unreadable", "error", where, what, hint, document_id, split)


def _widths(document: Document, words: Sequence[Span], encoder: str) -> list[int]:
    """The sub-words of each mention."""
    tokenizer = _tokenizer(encoder)
    subwords = split_into_subwords(document.text, words, tokenizer, tokenizer.unk_id)
    places = [locate(subwords, mention.start, mention.end) for mention in document.mentions]
    return [place[1] - place[0] + 1 if place else 0 for place in places]


@lru_cache(maxsize=1)
def _tokenizer(encoder: str) -> Tokenizer:
    """Loaded once, for all parts that a process is given."""
    return load_tokenizer(encoder)
