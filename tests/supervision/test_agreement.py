"""Which links stay where resolvers agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Span
from rayner.errors import CorpusError
from rayner.supervision.agreement import heads_by_rule, resolve

TEXT = "the old man saw Ada and she saw him in the garden of the house"


@dataclass
class Fixed:
    """A resolver that answers always the same: spans, or words of the text."""

    name: str
    chains: Sequence[Sequence[str | Span]]
    version: str = "1"

    def __call__(self, document: Document) -> list[list[Span]]:
        return [[self._span(document.text, one) for one in chain] for chain in self.chains]

    def _span(self, text: str, one: str | Span) -> Span:
        if not isinstance(one, str):
            return one
        return text.index(one), text.index(one) + len(one)


def kept(*resolvers: Fixed, text: str = TEXT) -> list[list[str]]:
    document = resolve(Document("d", text), resolvers, heads_by_rule).document
    chains: dict[str, list[str]] = {}
    for mention in document.mentions:
        assert mention.chain is not None
        chains.setdefault(mention.chain, []).append(text[mention.start : mention.end])
    return sorted(chains.values())


def test_mentions_are_the_same_if_their_heads_are() -> None:
    one = Fixed("one", [["the old man", "him"], ["Ada", "she"]])
    other = Fixed("other", [["man", "him", "the garden of the house"], ["Ada", "him"]])
    assert kept(one, other) == [["the old man", "him"]]
    agreed = resolve(Document("d", TEXT), [one, other], heads_by_rule)
    assert [TEXT[slice(*m.head)] for m in agreed.document.mentions if m.head] == ["man", "him"]
    assert agreed.links.found == {"one": 2, "other": 4 - 1}
    assert agreed.links.both == {("one", "other"): 1}
    assert agreed.links.either == {("one", "other"): 4}
    assert agreed.without_pronouns.either == {("one", "other"): 1}


def test_what_a_document_was_annotated_for_goes_with_its_mentions() -> None:
    document = Document("d", TEXT, annotated_types=("PER",))
    agreed = resolve(document, [Fixed("one", [["Ada", "she"]])], heads_by_rule)
    assert agreed.document.annotated_types is None


def test_of_one_resolver_every_link_stays() -> None:
    assert kept(Fixed("one", [["Ada", "she"], ["garden"]])) == [["Ada", "she"]]


def test_of_three_any_two_are_enough() -> None:
    a, b, c = (
        Fixed(n, [x]) for n, x in (("a", ["Ada", "she"]), ("b", ["Ada", "she"]), ("c", ["she", "him"]))
    )
    assert kept(a, b, c) == [["Ada", "she"]]
    assert kept(a, c) == []


def test_a_mention_outside_the_document_is_refused() -> None:
    with pytest.raises(CorpusError, match="the resolver far found a mention at 900-910"):
        kept(Fixed("far", [["Ada", (900, 910)]]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=10))
def test_two_resolvers_keep_the_links_of_both(labels: list[tuple[int, int]]) -> None:
    text = " ".join(chr(ord("b") + place) for place in range(len(labels)))
    partitions = [
        [[(2 * i, 2 * i + 1) for i, pair in enumerate(labels) if pair[side] == chain] for chain in range(4)]
        for side in (0, 1)
    ]
    resolvers = [Fixed(name, chains) for name, chains in zip("ab", partitions, strict=True)]
    agreed = resolve(Document("d", text), resolvers, heads_by_rule)
    both, one = (
        {(i, j) for i, j in combinations(range(len(labels)), 2) if same(labels[i], labels[j])}
        for same in (lambda x, y: x == y, lambda x, y: x[0] == y[0] or x[1] == y[1])
    )
    found = {
        (a.start // 2, b.start // 2)
        for a, b in combinations(agreed.document.mentions, 2)
        if a.chain == b.chain
    }
    assert found == both
    assert agreed.links.both["a", "b"] == len(both)
    assert agreed.links.either["a", "b"] == len(one)


def test_an_empty_text_has_no_chain() -> None:
    assert kept(Fixed("one", []), Fixed("two", []), text="") == []


def test_a_span_without_a_word_is_its_own_head() -> None:
    assert heads_by_rule(Document("d", "a  b"), [(1, 2), (0, 4)]) == [(1, 2), (3, 4)]
