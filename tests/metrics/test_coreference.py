"""The library's scores beside hand-worked ones, and B-cubed of some mentions alone beside its definition."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.errors import CorpusError, InputError
from rayner.metrics.coreference import chains_of, of_mentions, score_chains


def document(chains: Sequence[str], text: str = "abcdefghijklmnopqrstuvwxyz") -> Document:
    """Each letter of a string is a mention of its chain."""
    places = [(text.index(letter), str(number)) for number, one in enumerate(chains) for letter in one]
    mentions = (Mention(at, at + 1, "mention", chain=chain) for at, chain in places)
    return Document("d", text, tuple(sorted(mentions, key=lambda m: m.start)))


def rates(score: dict[str, float]) -> tuple[float, float]:
    return score["recall"], score["precision"]


def test_the_example_of_pradhan_and_others() -> None:
    """Pradhan et al. 2014, figure 1, worked out by hand; LEA by Moosavi and Strube 2016, equations 1 to 3."""
    found = score_chains([document(["abc", "defg"])], [document(["ab", "cd", "fghi"])])
    assert rates(found["muc"]) == pytest.approx((2 / 5, 2 / 5))
    assert rates(found["b_cubed"]) == pytest.approx(((5 / 3 + 5 / 4) / 7, 4 / 8))
    assert rates(found["ceaf_e"]) == pytest.approx((1.3 / 2, 1.3 / 3))
    assert rates(found["lea"]) == pytest.approx(((1 + 4 / 6) / 7, (2 + 4 / 6) / 8))
    assert found["conll_f1"] == pytest.approx(
        sum(found[name]["f1"] for name in ("muc", "b_cubed", "ceaf_e")) / 3
    )
    assert rates(found["mentions"]) == (6 / 7, 6 / 8)


def test_gold_against_itself_is_perfect_and_nothing_scores_nothing() -> None:
    gold = document(["abc", "de"])
    for name in ("muc", "b_cubed", "ceaf_e", "lea"):
        assert score_chains([gold], [gold])[name]["f1"] == 1
        assert score_chains([gold], [document([])])[name]["f1"] == 0
        assert score_chains([document([])], [document([])])[name]["f1"] == 0


def test_what_corefers_with_nothing_does_not_count() -> None:
    gold, found = document(["ab", "c", "d"]), document(["ab", "e"])
    assert score_chains([gold], [found])["conll_f1"] == 1
    assert chains_of(gold) == [((0, 1), (1, 2))]


def test_documents_add_up() -> None:
    one, other = document(["abc"]), document(["ab"])
    found = score_chains([one, one], [one, other])
    assert found["muc"]["recall"] == pytest.approx((2 + 1) / (2 + 2))


def test_pronouns_are_counted_apart() -> None:
    text = "Ada said she knew him and he saw her"

    def at(word: str, chain: str) -> Mention:
        start = text.index(f" {word} ") + 1 if f" {word} " in text else text.index(word)
        return Mention(start, start + len(word), "mention", chain=chain)

    gold = Document(
        "d", text, tuple(at(w, c) for w, c in (("Ada", "1"), ("she", "1"), ("him", "2"), ("he", "2")))
    )
    wrong = Document("d", text, tuple(at(w, c) for w, c in (("Ada", "1"), ("she", "1"), ("him", "1"))))
    found = score_chains([gold], [wrong])
    # she: 2/3 of its predicted chain is right; him: 1/3. Of gold: she 1, him 1/2, he 0.
    assert rates(found["pronouns"]) == pytest.approx(((1 + 1 / 2 + 0) / 3, (2 / 3 + 1 / 3) / 2))
    assert rates(found["others"]) == pytest.approx((1, 2 / 3))


LABELS = st.lists(st.integers(0, 4), min_size=2, max_size=12)


@given(LABELS, LABELS)
def test_of_all_mentions_it_is_b_cubed(one: list[int], other: list[int]) -> None:
    size = min(len(one), len(other))
    documents = [_labelled(labels[:size]) for labels in (one, other)]
    gold, found = map(chains_of, documents)
    sums = of_mentions(gold, found, lambda at: True)
    library = score_chains(documents[:1], documents[1:])["b_cubed"]
    assert library["precision"] == pytest.approx(sums["correct"] / max(1, sums["predicted"]))
    assert library["recall"] == pytest.approx(sums["right"] / max(1, sums["gold"]))


@given(LABELS, LABELS, st.integers(0, 3))
def test_of_some_mentions_it_is_the_sum_over_them(one: list[int], other: list[int], step: int) -> None:
    gold, found = (chains_of(_labelled(labels)) for labels in (one, other))

    def counted(at: tuple[int, int]) -> bool:
        return at[0] % 4 >= step

    def shares(of: Any, others: Any) -> list[float]:
        chain_of = {at: set(chain) for chain in others for at in chain}
        places = [(at, set(chain)) for chain in of for at in chain if counted(at)]
        return [len(chain & chain_of.get(at, set())) / len(chain) for at, chain in places]

    precisions, recalls = shares(found, gold), shares(gold, found)
    assert of_mentions(gold, found, counted) == {
        "correct": sum(precisions),
        "right": sum(recalls),
        "predicted": len(precisions),
        "gold": len(recalls),
    }


def _labelled(labels: Sequence[int]) -> Document:
    mentions = tuple(Mention(i, i + 1, "mention", chain=str(label)) for i, label in enumerate(labels))
    return Document("d", "x" * len(labels), mentions)


def test_answers_to_other_documents_are_refused() -> None:
    other = Document("e", "a")
    with pytest.raises(CorpusError, match="e: answers d"):
        score_chains([document([])], [other])


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "corefeval", None)
    with pytest.raises(InputError, match=r"pip install rayner\[coreference\]"):
        score_chains([], [])


def test_a_mention_of_two_chains_belongs_to_the_first() -> None:
    mentions: Any = [
        Mention(0, 1, "x", chain="1"),
        Mention(0, 1, "x", chain="2"),
        Mention(2, 3, "x", chain="1"),
    ]
    assert chains_of(Document("d", "a b c", tuple(mentions))) == [((0, 1), (2, 3))]


def test_a_span_in_several_chains_belongs_to_the_first() -> None:
    places = ((0, "1"), (1, "1"), (0, "2"), (2, "2"), (3, "2"))
    mentions = tuple(Mention(at, at + 1, "mention", chain=chain) for at, chain in places)
    assert chains_of(Document("d", "abcd", mentions)) == [((0, 1), (1, 2)), ((2, 3), (3, 4))]
