"""Coreference links on which resolvers agree (papers/003, section 3.2)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import NamedTuple

from rayner.counted import counted
from rayner.data.schema import UNTYPED, Document, Mention, Span
from rayner.data.words import words_of
from rayner.errors import CorpusError
from rayner.supervision.heads import head_of
from rayner.supervision.partitions import Joined
from rayner.supervision.pronouns import is_pronoun
from rayner.supervision.resolvers.base import Chains, Resolver

Heads = Callable[[Document, Sequence[Span]], list[Span]]
"""The head words of spans of a document, as characters."""


class Links(NamedTuple):
    """How many pairs of mentions corefer.

    Attributes:
        found: by the name of the resolver.
        both, either: by the names of two resolvers, the pairs of both and those of one at least.
    """

    found: Mapping[str, int]
    both: Mapping[tuple[str, str], int]
    either: Mapping[tuple[str, str], int]


class Agreed(NamedTuple):
    """A document with the chains that are left, and the links that were found: of all mentions, and of those
    that are no pronouns."""

    document: Document
    links: Links
    without_pronouns: Links


def resolve(document: Document, resolvers: Sequence[Resolver], heads: Heads) -> Agreed:
    """The document with those chains on whose links two resolvers agree; of one resolver, with all of them.

    Two mentions are the same if their heads are. All pairs of mentions of a chain are links; agreed links
    that share a mention make one chain. Where resolvers differ in a mention's span, it is that of the first.

    Raises:
        CorpusError: a resolver answers with a mention that is not in the document.
    """
    partitions: dict[str, dict[Span, int]] = {}
    spans: dict[Span, Span] = {}
    for resolver in resolvers:
        found = _by_head(document, resolver.name, resolver(document), heads)
        partitions[resolver.name] = {head: chain for head, (chain, _) in found.items()}
        for head, (_, span) in found.items():
            spans.setdefault(head, span)
    joined: Joined[Span] = Joined()
    for one, other in list(combinations(partitions, 2)) or [(resolvers[0].name,) * 2]:
        for group in _meet(partitions[one], partitions[other]):
            for head in group[1:]:
                joined.join(head, group[0])
    mentions = [
        Mention(*spans[head], UNTYPED, chain=str(number), head=head)
        for number, group in enumerate(joined.groups())
        for head in group
    ]
    mentions.sort(key=lambda m: (m.start, -m.end))
    named = {
        name: {
            head: chain for head, chain in partition.items() if not is_pronoun(document.text[slice(*head)])
        }
        for name, partition in partitions.items()
    }
    # All that it was annotated for went with its mentions.
    chained = replace(document, mentions=tuple(mentions), annotated_types=None)
    return Agreed(chained, count_links(partitions), count_links(named))


def count_links(partitions: Mapping[str, Mapping[Span, int]]) -> Links:
    """The links of each resolver's chains, and those that two have in common."""
    found = {
        name: sum(comb(size, 2) for size in Counter(one.values()).values())
        for name, one in partitions.items()
    }
    both, either = {}, {}
    for one, other in combinations(partitions, 2):
        shared = sum(comb(len(group), 2) for group in _meet(partitions[one], partitions[other]))
        both[one, other], either[one, other] = shared, found[one] + found[other] - shared
    return Links(found, both, either)


def heads_by_rule(document: Document, spans: Sequence[Span]) -> list[Span]:
    """Heads as `heads.head_of` finds them; of a span without a word, the span."""
    words = words_of(document, "corpus")
    found = []
    for start, end in spans:
        low = bisect_right(words, start, key=lambda word: word[1])
        high = bisect_left(words, end, key=lambda word: word[0])
        inside = words[low:high]
        found.append(inside[head_of([document.text[a:b] for a, b in inside])] if inside else (start, end))
    return found


def _by_head(document: Document, name: str, chains: Chains, heads: Heads) -> dict[Span, tuple[int, Span]]:
    """The chain and the span of each head; of mentions with the same head, the longest counts."""
    listed = [(end - start, start, end, number) for number, one in enumerate(chains) for start, end in one]
    for _, start, end, _ in listed:
        if not 0 <= start < end <= len(document.text):
            what = f"the resolver {name} found a mention at {start}-{end}"
            size = counted(len(document.text), "character")
            raise CorpusError(document.document_id, what, f"its text has {size}")
    listed.sort(key=lambda one: (-one[0], one[1]))
    found: dict[Span, tuple[int, Span]] = {}
    spans = [(start, end) for _, start, end, _ in listed]
    for head, (_, start, end, number) in zip(heads(document, spans), listed, strict=True):
        found.setdefault(head, (number, (start, end)))
    return found


def _meet(one: Mapping[Span, int], other: Mapping[Span, int]) -> list[list[Span]]:
    """Those that are together in both, two or more."""
    groups: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for head in sorted(one.keys() & other.keys()):
        groups[one[head], other[head]].append(head)
    return [group for group in groups.values() if len(group) > 1]
