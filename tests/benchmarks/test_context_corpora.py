"""What `python -m benchmarks.context_corpora` trains on, asks and counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import context_corpora as contexts
from rayner.data.schema import Document, Mention

TEXT = "Mia has gout. She and Bob met. Bob left."


def document(name: str = "a", text: str = TEXT) -> Document:
    spans = [(text.index(part), text.index(part) + len(part)) for part in text.split(". ")]
    mentions = (Mention(8, 12, "Disease"), Mention(31, 34, "Disease"))
    return Document(name, text, mentions, sentences=tuple(spans))


class Knows:
    """Finds each "Bob", and tells what it was asked."""

    forward_cost, tokens_per_batch, whole, names = 0, 100, False, ("Disease",)

    def __init__(self) -> None:
        self.asked: list[Document] = []

    def prepare(self, item: Document) -> list[Document]:
        self.asked.append(item)
        return [item]

    def length_of(self, window: Document) -> int:
        return len(window.text)

    def forward(self, windows: Sequence[Document]) -> list[int]:
        return [window.text.find("Bob") for window in windows]

    def finish(self, item: Document, windows: Sequence[Any], places: Sequence[int]) -> Document:
        found = [Mention(place, place + 3, "Disease") for place in places if place >= 0]
        return Document(item.document_id, item.text, tuple(found))


@pytest.fixture
def knows(monkeypatch: pytest.MonkeyPatch) -> Knows:
    found = Knows()

    class Checkpoint:
        @staticmethod
        def predictor() -> Knows:
            return found

    monkeypatch.setattr(contexts, "load_checkpoint", lambda path: Checkpoint)
    monkeypatch.setattr(contexts, "extractor", lambda corpus, kind, *rest: Path(kind))
    return found


def test_what_is_found_in_a_sentence_is_told_where_it_is_in_the_document(
    knows: Knows, tmp_path: Path
) -> None:
    found = contexts.find("ncbi", ("with", "after", 1), 1, "float32", [document()], tmp_path)
    assert found == {"a": [(22, 25, "Disease"), (31, 34, "Disease")]}
    assert [[context.text for context in one.contexts] for one in knows.asked] == [
        ["She and Bob met"],
        ["Bob left."],
        [],
    ]
    assert not any(one.mentions for one in knows.asked), "a recognizer is not told what is right"
    knows.asked.clear()
    assert contexts.find("ncbi", ("with", "after", 1), 1, "float32", [document()], tmp_path) == found
    assert not knows.asked, "kept in a file of its own"


def test_running_text_is_asked_as_it_is(knows: Knows, tmp_path: Path) -> None:
    found = contexts.find("ncbi", ("whole", "none", 0), 1, "float32", [document()], tmp_path)
    assert found == {"a": [(22, 25, "Disease")]}
    assert [one.text for one in knows.asked] == [TEXT]


def test_each_recognizer_sees_each_sentence_as_often() -> None:
    documents = [document(name) for name in "ab"]
    read = {kind: contexts.learned_by(kind, documents, 1) for kind in contexts.EXTRACTORS}
    assert {kind: len(of) for kind, of in read.items()} == {"without": 6, "with": 18, "whole": 2}
    assert len({one.document_id for one in read["with"]}) == 18
    assert any(one.contexts for one in read["with"])
    assert not any(one.contexts for one in read["without"])
    for kind, times in (("without", contexts.PASSES), ("with", 1), ("whole", contexts.PASSES)):
        assert f"training.epochs={times}" in contexts.EXTRACTORS[kind]
    assert {one.words for of in read.values() for one in of} == {None}


def test_gains_are_of_the_mean_over_seeds() -> None:
    gold = [document("a"), document("b")]
    right, half = [(8, 12, "Disease"), (31, 34, "Disease")], [(8, 12, "Disease"), (0, 3, "Disease")]
    of_none = [{"a": half, "b": half}, {"a": half, "b": right}]
    of_after = [{"a": right, "b": half}, {"a": right, "b": right}]
    counts = {
        ("with", method, number): np.stack([contexts.counts_of(gold, seed) for seed in seeds])
        for method, number, seeds in (("none", 0, of_none), ("after", 1, of_after))
    }
    assert counts["with", "none", 0].tolist() == [[[1, 2, 2], [1, 2, 2]], [[1, 2, 2], [2, 2, 2]]]
    none, after = contexts.rows_of("ncbi", counts)
    assert none["f1"] == pytest.approx((0.5 + 0.75) / 2)
    assert "gain" not in none
    assert after["gain"] == pytest.approx(0.25)
    assert after["gain_deviation"] == pytest.approx(0)
    # Resamples hold a, whose F1 rises by a half, from never to always.
    assert after["gain_interval"] == pytest.approx([0, 0.5])


def test_corpora_are_cut_into_sentences_and_no_book_is_both_learned_and_asked(corpora: Path) -> None:
    books = contexts.parts_of("litbank")
    assert (len(books.learned), len(books.asked)) == (68, 17)
    assert not {one.document_id for one in books.learned} & {one.document_id for one in books.asked}
    abstracts = contexts.parts_of("ncbi")
    assert (len(abstracts.learned), len(abstracts.asked)) == (592, 100)
    for parts in (books, abstracts):
        for one in [*parts.learned, *parts.asked]:
            within = contexts.sentence_documents(one)
            assert sum(len(sentence.mentions) for sentence in within) == len(one.mentions)
    assert {m.type for one in abstracts.asked for m in one.mentions} == {"Disease"}


def test_contexts_are_found_once(tmp_path: Path) -> None:
    chosen = contexts.contexts_of("ncbi", [document()], "surrounding", tmp_path)
    assert [[one.text for one in of] for of in chosen["a"]] == [
        ["She and Bob met", "Bob left."],
        ["Mia has gout", "Bob left."],
        ["Mia has gout", "She and Bob met"],
    ]
    kept = json.loads((tmp_path / "ncbi_contexts_surrounding.json").read_text())
    assert [context[0] for context in kept["a"][0]] == ["She and Bob met", "Bob left."]


def test_each_method_is_asked_with_each_number() -> None:
    planned = contexts.plan(["surrounding", "bm25"], [1, 2])
    assert planned == [
        ("with", "none", 0),
        ("without", "none", 0),
        ("whole", "none", 0),
        ("with", "bm25", 1),
        ("with", "surrounding", 2),
        ("with", "bm25", 2),
    ]
