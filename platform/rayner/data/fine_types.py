"""Fine types of mentions: which are gold, and how names form a hierarchy (`/person/artist`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from rayner.data.schema import UNKNOWN, UNTYPED, Document, Mention, Span

SEPARATOR = "/"


def gold_types(mention: Mention) -> tuple[str, ...]:
    """The fine types of a mention, each once; of one without any, its own type, unless that says nothing."""
    if mention.types:
        return tuple(dict.fromkeys(name for name, _ in mention.types))
    return () if mention.type in (UNTYPED, UNKNOWN) else (mention.type,)


def looked_for(mention: Mention, annotated: Collection[str] | None) -> Collection[str] | None:
    """The fine types that somebody looked for in a mention, by what its document was annotated for.

    None is all: those of a mention with fine types whose own type the document was annotated for.
    """
    return None if mention.types and mention.type in (annotated or ()) else annotated


def is_among(name: str, looked: Collection[str] | None) -> bool:
    """Whether a type is one of those that somebody looked for (None: all)."""
    return looked is None or name in looked


class SpanTypes(NamedTuple):
    """The gold types of a span that somebody looked for; what that was (None: all); whether it has any."""

    names: tuple[str, ...]
    looked_for: Collection[str] | None
    said: bool


def types_by_span(document: Document) -> dict[Span, SpanTypes]:
    """By span, in the order of the document; of several mentions of one span, the types of all."""
    annotated = annotated_of(document)
    found: dict[Span, SpanTypes] = {}
    for mention in document.mentions:
        span = mention.start, mention.end
        names, looked, said = found.get(span, SpanTypes((), annotated, False))
        types, own = gold_types(mention), looked_for(mention, annotated)
        kept = dict.fromkeys((*names, *(name for name in types if is_among(name, own))))
        found[span] = SpanTypes(tuple(kept), None if looked is None else own, said or bool(types))
    return found


def types_of_mentions(document: Document) -> list[SpanTypes | None]:
    """For each mention that is the first of its span, what `types_by_span` says of that, if somebody said a
    type; None for others, so that no span is learned or counted twice."""
    spans = types_by_span(document)
    found = (spans.pop((mention.start, mention.end), None) for mention in document.mentions)
    return [types if types is not None and types.said else None for types in found]


def annotated_of(document: Document) -> Collection[str] | None:
    """What a document was annotated for, as `looked_for` takes it."""
    return None if document.annotated_types is None else frozenset(document.annotated_types)


def as_types(names: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Names as gold values of `Mention.types`, each once."""
    return tuple((name, 1.0) for name in dict.fromkeys(names))


def ancestors(name: str) -> Iterator[str]:
    """The types above a type, the nearest first: "/person" of "/person/artist"; none of a flat name."""
    while (cut := name.rfind(SEPARATOR)) > 0:
        name = name[:cut]
        yield name


def missing_parents(names: Iterable[str]) -> dict[str, list[str]]:
    """The types above some of the types that are none themselves, each with those that lie below it."""
    known = dict.fromkeys(names)
    missing: dict[str, list[str]] = {}
    for name in known:
        for above in ancestors(name):
            if above not in known:
                missing.setdefault(above, []).append(name)
    return missing


def spoken(name: str) -> str:
    """A type's name as words: "person artist" of "/person/artist", "soccer player" of "soccer_player"."""
    return " ".join(name.replace(SEPARATOR, " ").replace("_", " ").split()) or name
