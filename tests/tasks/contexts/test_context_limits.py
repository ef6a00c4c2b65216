"""Documents that ask too much of contexts: an endless sentence, one that is repeated, more than there is."""

from __future__ import annotations

import tracemalloc
from typing import Any, get_args

import pytest

from rayner.config import ContextSettings
from rayner.config.documents import ContextMethod
from rayner.data.schema import Document
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, train_task
from tests.tasks.small import built, tagger
from tests.tasks.small_pairs import ranker_recipe

WINDOWS = {"length": 40, "overlap": 10, "context": 12}
METHODS = get_args(ContextMethod)


def endless(words: int) -> str:
    """A sentence of so many words."""
    return "It rained, " + "and Ada saw the whale " * (words // 5) + "again."


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    task: Any = train_task(parse_recipe(ranker_recipe(tmp_path_factory.mktemp("ranker")), "test"))
    return task.predictor(built(task))


def read(document: Document, ranker: Any, **settings: Any) -> tuple[Document, list[Any]]:
    """The document with contexts, and its windows."""
    chosen = {"methods": METHODS, "count": 3, "candidates": 8, "choice": "diverse", **settings}
    stage = ContextStage(ContextSettings.model_validate(chosen), ranker)
    (found,) = predict(stage, [document])
    windows = tagger(windows=WINDOWS).windows_of(found)
    assert found.sentence_contexts is not None
    assert len(found.sentence_contexts) == len(found.sentences or ())
    assert max(map(len, windows)) <= WINDOWS["length"]
    return found, windows


def test_one_sentence_of_a_hundred_thousand_words(ranker: Any) -> None:
    found, windows = read(Document("d", endless(100_000)), ranker)
    assert found.sentence_contexts == ((),)
    assert sum(window.span.end - window.span.begin for window in windows) >= 100_000


def test_it_as_a_context_of_others_is_cut_to_its_room(ranker: Any) -> None:
    """Within 3 kB a word: what grows with the square of its length would take 25 MB at least."""
    text = f"Ada slept. {endless(5000)} Nobody saw Ada."
    tracemalloc.start()
    try:
        found, windows = read(Document("d", text), ranker)
        assert tracemalloc.get_traced_memory()[1] < 5000 * 3000
    finally:
        tracemalloc.stop()
    assert [len(contexts) for contexts in found.sentence_contexts or ()] == [2, 2, 2]
    assert max(len(window.before) + len(window.after) for window in windows) == WINDOWS["context"]


def test_the_same_sentence_ten_thousand_times_has_no_context(ranker: Any) -> None:
    found, windows = read(Document("d", "Ada saw the whale. " * 10_000), ranker)
    assert found.sentence_contexts == ((),) * 10_000
    assert len(windows) == 10_000


def test_thousands_of_sentences_that_are_nearly_the_same() -> None:
    """Each is like all others: what is kept must not grow with their square."""
    text = " ".join(f"Ada saw the whale {number}." for number in range(2000))
    settings = {"methods": ("before", "bm25", "same_noun", "random"), "candidates": 4, "choice": "top"}
    found, _ = read(Document("d", text), None, **settings)
    assert {len(contexts) for contexts in found.sentence_contexts or ()} == {3}


def test_more_contexts_than_the_document_has_sentences(ranker: Any) -> None:
    found, _ = read(Document("d", "Ada slept. It rained. Kurt ran."), ranker, count=10**6, candidates=10**6)
    assert [len(contexts) for contexts in found.sentence_contexts or ()] == [2, 2, 2]
