"""The method `dense`, and how nouns are compared, in recipes, stages and `corpus contexts`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rayner.config import ContextSettings
from rayner.data.schema import Document
from rayner.errors import InputError
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.context_gains import context_gains
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, task_of, train_task
from rayner.tasks.sentence_vectors import LONGEST, sentence_vectors
from tests.tasks.small import built, corpus, marked, tagger, trained
from tests.tasks.small_pairs import ranker_recipe

WINDOWS = {"length": 40, "overlap": 10, "context": 12}
BOOK = Document("b", "Ada came home. It rained. Nobody saw Ada. The rain went on. Ada slept.")


def texts_of(document: Document) -> list[list[str]]:
    return [[context.text for context in contexts] for contexts in document.sentence_contexts or ()]


def test_a_vector_depends_on_no_other_text_and_long_texts_are_read_from_their_beginning() -> None:
    task = tagger()
    encoder = task.encoder().eval()
    texts = ["Ada came home.", "", "It rained. " * 9, "word " * 1000, "word " * 2000]
    found = sentence_vectors(encoder, task.tokenizer, texts)
    alone = np.concatenate([sentence_vectors(encoder, task.tokenizer, [text]) for text in texts])
    assert np.allclose(found, alone, atol=1e-5)
    assert np.allclose(found[3], found[4], atol=1e-6)
    ids = torch.tensor([[task.tokenizer.cls_id, *task.tokenizer(texts[0])[0], task.tokenizer.sep_id]])
    assert ids.shape[1] < LONGEST
    with torch.no_grad():
        mean = encoder(ids, ids >= 0)[0].mean(0).numpy()
    assert np.allclose(found[0], mean, atol=1e-5)


def test_a_checkpoint_finds_the_contexts_that_it_was_trained_with(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Training changes the encoder of the model, and by it would change the contexts."""
    task = tagger(windows=WINDOWS, context={"methods": ["dense"], "count": 2})
    learned_with = task.contexts
    assert learned_with is not None
    before = learned_with.of(BOOK)
    assert [len(contexts) for contexts in texts_of(before)] == [2] * 5
    save_checkpoint(tmp_path / "best", task, trained(task, corpus(), 20), {})
    loaded = load_checkpoint(tmp_path / "best", "cpu")
    assert loaded.task.contexts.of(BOOK) == before
    # Nobody is told that weights are missing, which the encoder does not have.
    assert capfd.readouterr().err == ""
    save_checkpoint(tmp_path / "again", loaded.task, loaded.model, {})
    shutil.rmtree(tmp_path / "best")
    assert load_checkpoint(tmp_path / "again", "cpu").task.contexts.of(BOOK) == before


@pytest.mark.parametrize(("methods", "asks"), [(["bm25"], False), (["bm25", "dense"], True)])
def test_examples_ask_a_model_where_it_chooses_contexts(methods: list[str], asks: bool) -> None:
    context = {"methods": methods, "count": 2}
    assert tagger(windows=WINDOWS, context=context).examples_ask_model is asks
    assert tagger().examples_ask_model is False


def test_a_stage_finds_them_by_the_encoder_of_its_ranker(tmp_path: Path) -> None:
    recipe = parse_recipe(ranker_recipe(tmp_path), "test")
    task: Any = train_task(recipe)
    model = built(task).eval()
    record = task_of(recipe)
    options = record.options.of({"methods": ["dense"], "count": 1, "candidates": 1}, "ranker")
    (found,) = predict(record.as_stage(task.predictor(model), options), [BOOK])
    sentences = [BOOK.text[start:end] for start, end in found.sentences]
    vectors = sentence_vectors(model.text_encoder, task.tokenizer, sentences)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (vectors @ vectors.T - 2 * np.eye(5)).argmax(1)
    assert texts_of(found) == [[sentences[place]] for place in nearest]


def test_without_an_encoder_it_is_refused() -> None:
    with pytest.raises(InputError, match="method dense: has no encoder"):
        ContextStage(ContextSettings(methods=("dense",)))


def test_an_extractor_tries_them_by_its_own_encoder(tmp_path: Path) -> None:
    task = tagger(windows=WINDOWS)
    save_checkpoint(tmp_path / "best", task, trained(task, corpus(), 20), {})
    document = marked("[PER:Ada] came home. It rained. Nobody saw [PER:Ada].")
    settings = ContextSettings(methods=("dense",), candidates=1)
    gains = list(context_gains(load_checkpoint(tmp_path / "best", "cpu"), [document], settings))
    assert [gain.sentence for gain in gains] == ["Ada came home.", "Nobody saw Ada."]


def test_nouns_are_compared_as_the_settings_say() -> None:
    book = Document("b", "They saw the whale. The whales of it were grey. A Whale rose. It rained.")

    def found(**values: Any) -> list[str]:
        stage = ContextStage(ContextSettings(methods=("same_noun",), count=5, **values))
        return texts_of(stage.finish(book, [], []))[0]

    assert found() == []
    assert found(case=False) == ["A Whale rose."]
    assert found(lemmas=True) == ["The whales of it were grey."]
    assert found(lemmas=True, case=False, nouns="light") == ["The whales of it were grey.", "A Whale rose."]


def test_what_finds_nouns_is_a_part_of_the_key() -> None:
    def key(**values: Any) -> Any:
        contexts = tagger(windows=WINDOWS, context={"methods": ["same_noun"], **values}).contexts
        assert contexts is not None
        return contexts.key()

    keys = [key(), key(lemmas=True), key(case=False), key(methods=["dense"]), key(seed=1)]
    assert all(keys.count(one) == 1 for one in keys)
    assert key(nouns="auto")["nouns"] in ("spacy", "nltk", "light")
