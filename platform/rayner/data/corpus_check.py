"""What is wrong with a corpus, or with its splits beside one another, before anything is trained on it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rayner.counted import counted
from rayner.data.fine_types import gold_types
from rayner.data.readers.files import stem
from rayner.data.schema import UNKNOWN, UNTYPED, Document, Mention
from rayner.data.words import are_in_order
from rayner.files.uris import tell_of_uris

Overlap = Literal["unknown", "outer", "flat", "nested"]
"""Which of mentions that overlap a model learns and finds: it learns the outer ones only, it learns all and
finds one of two (`flat`), or it learns and finds all (`nested`)."""
_OVERLAPPING: Mapping[Overlap, tuple[str, str]] = {
    "unknown": ("warning", "whether that matters depends on the task: name a --recipe"),
    "outer": ("warning", "this task learns the outer ones only; a recognizer learns all"),
    "flat": (
        "warning",
        "the recipe learns all and finds one of two; decoding.overlap=nested finds all",
    ),
    "nested": ("note", "the recipe learns and finds all, so this does not matter"),
}


MOST_COMPARED = 100_000
"""Pairs of names that are compared for the nearest one; more would take minutes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: an `error` spoils training or evaluation, a `warning` may be meant so, a
    `note` does not matter to the task of the recipe."""

    kind: str
    severity: str
    where: str
    what: str
    hint: str
    document_id: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        tell_of_uris(self)


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """A document: its split, its id, and where it was read."""

    split: str
    document_id: str
    where: str

    def finding(self, kind: str, severity: str, what: str, hint: str) -> Finding:
        """One thing that is wrong here."""
        return Finding(kind, severity, self.where, what, hint, self.document_id, self.split)


def document_findings(
    document: Document, place: DocumentPlace, overlap: Overlap = "unknown"
) -> Iterator[Finding]:
    """What is wrong with a document by itself.

    Args:
        overlap: which of mentions that overlap are learned and found.
    """
    size = len(document.text)
    if not document.text.strip():
        yield place.finding("empty document", "error", "a document without text", "remove it")
    if document.words is not None and not are_in_order(document.words):
        what = "words that overlap or are not in order; those of the text take their place"
        yield place.finding("words", "error", what, "write each word once, in the order of the text")
    for mention in document.mentions:
        if not 0 <= mention.start < mention.end <= size:
            what = f"{_at(mention)} outside the text of {counted(size, 'character')}"
            yield place.finding("offsets", "error", what, "count characters from 0, end exclusive")
        elif (surface := document.text[mention.start : mention.end]) != surface.strip():
            what = f"{_at(mention)} begins or ends in white space: {surface[:40]!r}"
            yield place.finding("white space", "warning", what, "leave it out of the mention")
        annotated = document.annotated_types
        # What has no type but finer ones may have been looked for by these alone.
        fine = gold_types(mention) if mention.type == UNTYPED else ()
        if annotated is not None and not {*annotated, UNKNOWN}.intersection((mention.type, *fine)):
            what = f"{_at(mention)} has a type that the document was not annotated for"
            yield place.finding("annotated types", "error", what, "add it to annotated_types")
    yield from _overlaps(document, place, overlap)


def _overlaps(document: Document, place: DocumentPlace, overlap: Overlap) -> Iterator[Finding]:
    ordered = sorted((m for m in document.mentions if m.start < m.end), key=lambda m: (m.start, -m.end))
    nested = 0
    open_: list[Mention] = []
    for mention in ordered:
        open_ = [other for other in open_ if other.end > mention.start]
        nested += bool(open_)
        for other in open_:
            if (other.start, other.end, other.type) == (mention.start, mention.end, mention.type):
                what = f"{_at(mention)} is there twice"
                yield place.finding("duplicate mention", "warning", what, "remove one")
                break
            if other.end < mention.end and other.start < mention.start:
                what = f"{_at(mention)} crosses {_at(other)}"
                yield place.finding("crossing mentions", "warning", what, "correct the offsets of one")
        open_.append(mention)
    if nested:
        what = f"{nested} of {len(ordered)} mentions are inside or across others"
        yield place.finding("nested mentions", _OVERLAPPING[overlap][0], what, _OVERLAPPING[overlap][1])


def repetition_findings(
    place: DocumentPlace,
    same_id: DocumentPlace | None,
    same_text: DocumentPlace | None,
    same_group: tuple[str, DocumentPlace] | None,
) -> Iterator[Finding]:
    """A document beside all before it. An id that repeats is not also reported for its text and group.

    In two splits, documents of one id and different texts may be two: rows that are numbered in each split.

    Args:
        same_id: the first document with its id, if that is another one.
        same_text: the first one with its text, which is not empty.
        same_group: its group, and the first document of that.
    """
    if same_id is not None and same_id.split == place.split:
        what = f"the id {place.document_id!r} is also at {same_id.where}"
        yield place.finding("duplicate document", "error", what, "keep one, or give the other an id")
        return
    if same_id is not None and same_text is not None and same_text.split == same_id.split:
        what = f"the id {place.document_id!r} is also in {same_id.split} ({same_id.where})"
        yield place.finding("leakage", "error", what, "keep the document in one split")
        return
    if same_text is not None:
        if same_text.split != place.split:
            what = f"the same text is in {same_text.split} ({same_text.where})"
            yield place.finding("leakage", "error", what, "keep the text in one split")
        else:
            what = f"the same text is at {same_text.where}"
            yield place.finding("duplicate document", "warning", what, "keep one")
    if same_group is not None and same_group[1].split != place.split:
        name, first = same_group
        what = f"documents of the group {name!r} are in {first.split} ({first.where})"
        yield place.finding("leakage", "error", what, "keep a group in one split")
    elif same_id is not None and not _is_numbered_by_reader(place):
        what = f"the id {place.document_id!r} is also in {same_id.split} ({same_id.where}), with another text"
        hint = "keep the document in one split, or if it is another one, give it an id of its own"
        yield place.finding("id in two splits", "warning", what, hint)


def _is_numbered_by_reader(place: DocumentPlace) -> bool:
    """Whether the document has no id of its own, but the name of its file and its number there."""
    name, _, number = place.document_id.rpartition(":")
    where = place.where.removesuffix(f" ({place.split}: {place.document_id})")
    file, _, row = where.rpartition(":")
    return bool(number) and row.removeprefix("row ") == number and Path(name).name == stem(Path(file))


def width_findings(
    document: Document, place: DocumentPlace, widths: Sequence[int], max_span_width: int
) -> Iterator[Finding]:
    """The mentions that no window holds.

    Args:
        widths: the number of sub-words of each mention, in the order of the mentions.
        max_span_width: the widest span that is scored, in sub-words.
    """
    for mention, width in zip(document.mentions, widths, strict=True):
        if width > max_span_width and mention.type != UNKNOWN:
            what = f"{_at(mention)} has {width} sub-words; windows hold spans of at most {max_span_width}"
            hint = f"raise model.max_span_width to {width}, and windows.overlap to at least {width - 1}"
            yield place.finding("too wide", "error", what, hint)


def without_words(document: Document, place: DocumentPlace) -> Finding:
    """What is wrong with a document of which a recipe reads no word, and whose mentions lie in none."""
    what = f"{counted(len(document.mentions), 'mention')} and no word"
    return place.finding("no word", "error", what, "mark what holds a letter, digit or sign")


def empty_split(split: str, documents: int) -> Finding:
    """What is wrong with a split without a mention."""
    what = f"{counted(documents, 'document')} without a mention" if documents else "no documents"
    return Finding("empty split", "error", split, what, "give it some", None, split)


def type_findings(types: Mapping[str, str | None], used: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the described types beside those that occur.

    Args:
        used: the types that occur, and where each one is first.
    """
    unused, sought = [name for name in types if name not in used], 0
    in_one_case = {name.casefold(): name for name in unused}
    is_any_known = not types.keys().isdisjoint(used)
    for type_, where in used.items():
        if type_ == UNKNOWN:
            continue
        if type_ not in types:
            what = f"the type {type_!r} is not among the recipe's (first in {where})"
            near = [in_one_case[type_.casefold()]] if type_.casefold() in in_one_case else []
            if not near and sought < MOST_COMPARED:
                near = difflib.get_close_matches(type_, unused, n=1)
                sought += len(unused)
            # A recipe may learn some of a corpus's types; a name close to one that never occurs is a slip.
            told = "training leaves its mentions out; to learn it, describe it in the recipe's types"
            hint = f"is it the recipe's {near[0]!r}?" if near else told
            severity = "error" if near or not is_any_known else "warning"
            yield Finding("type not in the recipe", severity, type_, what, hint)
        elif not types[type_]:
            what = f"the type {type_!r} has no description (first in {where})"
            hint = "describe it in the recipe's types"
            yield Finding("type without description", "error", type_, what, hint)
    for type_ in types:
        if type_ not in used:
            what = f"the type {type_!r} has no mention"
            yield Finding("type without mentions", "warning", type_, what, "correct its name or leave it out")


def _at(mention: Mention) -> str:
    return f"{mention.type} [{mention.start}, {mention.end})"
