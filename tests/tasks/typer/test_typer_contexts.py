"""A typer whose recipe has a `context`: each mention is read in its sentence, with others of the document."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from rayner.config.typer import MentionEncoding
from rayner.data.schema import Document, Mention
from rayner.errors import RecipeError
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.stages import load_pipeline
from tests.serving.checkpoints import ranker_folder
from tests.tasks.small import corpus, found, tagger, trained

WHENS = ("early", "late", "today")
# Only another sentence tells which of the two it is.
DOCUMENTS = [
    Document(f"{name}{when}", f"Jordan came {when}. It rained. {clue}", (Mention(0, 6, name),))
    for name, clue in (("river", "It is a river."), ("poet", "She is a poet."))
    for when in WHENS
]


def typer(**context: Any) -> Any:
    values = {
        "task": "typer",
        "encoder": "random:32x2",
        "corpus": {"train": ["nowhere"], "dev": ["nowhere"]},
        "windows": {"length": 40, "overlap": 4, "context": 16},
        "context": {"methods": ["after"], "count": 2, **context.pop("context", {})},
        "model": {"dropout": 0, **context},
    }
    task: Any = train_task(parse_recipe(values, "test"))
    task.vocabulary = {"poet": 3, "river": 3}
    return task


@pytest.mark.parametrize("encoding", get_args(MentionEncoding))
def test_a_mention_is_read_with_the_sentences_that_the_recipe_chooses(encoding: MentionEncoding) -> None:
    task = typer(mention_encoding=encoding)
    for document in DOCUMENTS:
        (window,) = task.windows_of(document)
        (clue,) = task.tokenizer(document.mentions[0].type)[0]
        assert clue in window.ids.tolist()
        assert task.tokenizer.sep_id in window.ids.tolist()
        (row,) = task.examples([document])
        assert row["ids"].tolist() == window.ids.tolist()


def test_a_checkpoint_answers_with_the_same_contexts(tmp_path: Path) -> None:
    task = typer()
    model = trained(task, DOCUMENTS, steps=5)
    answers = found(task, model, DOCUMENTS)
    save_checkpoint(tmp_path / "best", task, model, {})
    loaded = load_checkpoint(tmp_path / "best", "cpu")
    assert list(predict(loaded.predictor(), DOCUMENTS)) == answers
    assert loaded.task.contexts.of(DOCUMENTS[0]) == task.contexts.of(DOCUMENTS[0])


def test_its_ranker_comes_along_and_it_answers_in_a_pipeline(tmp_path: Path) -> None:
    task = typer(
        context={"ranker": str(ranker_folder(tmp_path / "ranker")), "candidates": 4, "methods": ["bm25"]}
    )
    save_checkpoint(tmp_path / "typer", task, trained(task, DOCUMENTS, steps=2), {})
    finder = tagger()
    save_checkpoint(tmp_path / "tagger", finder, trained(finder, corpus(), 30), {})
    (tmp_path / "pipeline.yaml").write_text("stages:\n- checkpoint: tagger\n- checkpoint: typer\n")
    pipeline = load_pipeline(tmp_path / "pipeline.yaml", "cpu")
    assert pipeline.checkpoints[1].task.contexts.ranker == tmp_path / "typer" / "ranker"
    (answer,) = pipeline.predict([" ".join(document.text for document in corpus())])
    assert answer.mentions
    assert all(mention.types for mention in answer.mentions)
    assert any(map(any, [pipeline.with_contexts(answer).sentence_contexts or ()]))


def test_contexts_decide_the_examples_and_need_room() -> None:
    plain, other = typer(), typer(context={"count": 3})
    assert plain.example_settings() != other.example_settings()
    values = plain.recipe.model_dump(mode="json") | {"windows": {"length": 40, "overlap": 4}}
    with pytest.raises(RecipeError, match=r"context needs windows\.context"):
        parse_recipe(values, "test")


def test_examples_ask_a_model_where_it_chooses_contexts() -> None:
    assert typer(context={"methods": ["dense"]}).examples_ask_model is True
    assert typer().examples_ask_model is False
