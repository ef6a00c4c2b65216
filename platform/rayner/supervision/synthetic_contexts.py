"""A training set for a context ranker that nobody annotated (Amalvy et al. 2023, EMNLP, section 3.2).

From annotated documents: for each distinct entity string one sentence with it, for which a helpful context is
written (by a model or from a template); then as many rows whose context does not help, half of them sentences
of other documents, half the contexts of other entities.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rayner.config import ContextKindSettings
from rayner.data.schema import UNKNOWN, Document
from rayner.data.sentences import sentences_of
from rayner.data.words import find_words
from rayner.supervision.context_prompts import KINDS, kinds_of
from rayner.supervision.context_rows import ContextRow

KEPT = "kept"
OUTSIDE = "mentions outside a sentence"
UNTYPED = f"mentions of type {UNKNOWN}"
"""Counts of mentions that are asked about nothing: a sentence ends within them, or they may be none."""
_TRIES = 50


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """A context that is asked for: one of a kind for an entity, to help to read a sentence with it."""

    sentence: str
    entity: str
    type: str
    kind: ContextKindSettings
    entities: tuple[str, ...]
    """The mentions of the sentence."""
    group: str


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """A sentence, its mentions as (string, type), and the group of its document."""

    text: str
    mentions: tuple[tuple[str, str], ...]
    group: str


def source_sentences(
    documents: Iterable[Document], counts: Counter[str] | None = None
) -> Iterator[SourceSentence]:
    """The sentences of documents, with the mentions that lie whole in them; of no group, by document.

    Args:
        counts: gets how many mentions are `OUTSIDE` or `UNTYPED`.
    """
    counts = Counter() if counts is None else counts
    for document in documents:
        spans = sentences_of(document)
        starts = [start for start, _ in spans]
        inside: list[list[tuple[str, str]]] = [[] for _ in spans]
        for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
            text = document.text[mention.start : mention.end]
            # Blanks at its edges may lie between sentences.
            start = mention.start + len(text) - len(text.lstrip())
            end = mention.end - len(text) + len(text.rstrip())
            place = bisect_right(starts, start) - 1
            if place >= 0 and start < end <= spans[place][1]:
                inside[place].append((_plain(text), mention.type))
                counts[UNTYPED] += mention.type == UNKNOWN
            else:
                counts[OUTSIDE] += 1
        group = document.group or document.document_id
        for (start, end), mentions in zip(spans, inside, strict=True):
            yield SourceSentence(_plain(document.text[start:end]), tuple(mentions), group)


def context_requests(
    sentences: Iterable[SourceSentence], kinds: Sequence[ContextKindSettings] = KINDS, seed: int = 0
) -> list[ContextRequest]:
    """One request for each distinct entity string, at its first sentence, of a kind drawn for its type.

    What is drawn depends on the entity, its type and the seed alone: sentences that come before others change
    no kind of theirs. Entities of a type that no kind fits have none.
    """
    requests: dict[str, ContextRequest] = {}
    for sentence in sentences:
        entities = tuple(dict.fromkeys(text for text, _ in sentence.mentions))
        for entity, type_ in sentence.mentions:
            fitting = kinds_of(type_, kinds) if type_ != UNKNOWN else []
            if entity and entity not in requests and fitting:
                kind = fitting[_drawn(entity, type_, seed) % len(fitting)]
                requests[entity] = ContextRequest(
                    sentence.text, entity, type_, kind, entities, sentence.group
                )
    return list(requests.values())


def positive_rows(
    requests: Sequence[ContextRequest], answers: Sequence[str | None]
) -> tuple[list[ContextRow], Counter[str]]:
    """Rows of the answers that can help, and counts: `kept`, and why others were dropped.

    An answer must mention the entity (case and white space do not count) and say more than the sentence.

    Args:
        answers: one a request; None where there is none.
    """
    rows, counts = [], Counter[str]()
    for request, answer in zip(requests, answers, strict=True):
        context = _context_in(answer or "")
        found = _judge(request, context)
        counts[found] += 1
        if found == KEPT:
            rows.append(ContextRow(request.sentence, context, True, request.entities, request.group))
    return rows, counts


def negative_rows(
    positives: Sequence[ContextRow], sentences: Sequence[SourceSentence], seed: int = 0
) -> tuple[list[ContextRow], Counter[str]]:
    """As many rows whose context does not help, and counts: `sampled`, `swapped`, and how many are missing.

    Half have a sentence of another group (negative sampling), half the context of another row (swapping),
    none with an entity of the sentence in it, and none twice for a sentence. Where one way finds no context,
    the other is tried.
    """
    rng = np.random.default_rng(seed)
    texts = list(dict.fromkeys((sentence.text, sentence.group) for sentence in sentences if sentence.text))
    ways = {"sampled": texts, "swapped": [(row.context, None) for row in positives]}
    rows, counts = [], Counter[str]()
    taken: defaultdict[str, set[str]] = defaultdict(set)
    for turn, place in enumerate(rng.permutation(len(positives)).tolist()):
        row = positives[place]
        for way in sorted(ways, reverse=bool(turn % 2)):
            context = _unrelated(row, ways[way], taken[row.sentence], rng)
            if context is not None:
                taken[row.sentence].add(context)
                rows.append(ContextRow(row.sentence, context, False, row.entities, row.group))
                counts[way] += 1
                break
        else:
            counts["missing"] += 1
    return rows, counts


def can_help(request: ContextRequest, answer: str) -> bool:
    """Whether `positive_rows` makes a row of the answer."""
    return _judge(request, _context_in(answer)) == KEPT


def _judge(request: ContextRequest, context: str) -> str:
    """Whether a context can help, or why not."""
    if not context:
        return "without an answer"
    if not _mentions(context, request.entity):
        return "without the entity"
    if context.casefold() in (request.sentence.casefold(), request.entity.casefold()):
        return "nothing new"
    return KEPT


def _mentions(text: str, entity: str) -> bool:
    """Whether the words of the entity are there, one after the other, in any case."""
    words, sought = _folded_words(text), _folded_words(entity)
    places = range(len(words) - len(sought) + 1) if sought else ()
    return any(words[i : i + len(sought)] == sought for i in places)


def _folded_words(text: str) -> list[str]:
    return [text[start:end].casefold() for start, end in find_words(text)]


def _drawn(entity: str, type_: str, seed: int) -> int:
    drawn = hashlib.sha256(json.dumps([entity, type_, seed]).encode()).digest()
    return int.from_bytes(drawn[:8])


def _unrelated(
    row: ContextRow,
    texts: Sequence[tuple[str, str | None]],
    taken: Collection[str],
    rng: np.random.Generator,
) -> str | None:
    """A text of another group that is not taken, without an entity of the row; None where many tries find
    none."""
    for _ in range(_TRIES if texts else 0):
        text, group = texts[int(rng.integers(len(texts)))]
        own = (group is not None and group == row.group) or text in (row.sentence, row.context)
        if not own and text not in taken and not any(_mentions(text, one) for one in row.entities):
            return text
    return None


def _context_in(answer: str) -> str:
    """What an answer says, on one line: without thoughts before it, and nothing where these have no end."""
    _, ended, said = answer.rpartition("</think>")
    if not ended and answer.lstrip().startswith("<think>"):
        said = ""
    return _unquoted(_plain(said))


def _unquoted(text: str) -> str:
    """An answer that is one quotation, without the marks around it."""
    if text[:1] in ('"', "“") and text[-1:] in ('"', "”") and not any(mark in text[1:-1] for mark in '"“”'):
        return text[1:-1].strip()
    return text


def _plain(text: str) -> str:
    return " ".join(text.split())
