"""The mention-ranking model: its examples, what it learns, and how chains of windows are joined."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import rayner
from rayner.data.readers.base import in_order
from rayner.data.schema import UNTYPED, Context, Document, Mention, document_to_row
from rayner.errors import CorpusError, InputError, RecipeError
from rayner.files.run_checkpoints import MANIFEST
from rayner.models.encoder import Encoder
from rayner.models.mention_ranking import MentionRanking
from rayner.runtime.evaluation.evaluate import evaluate
from rayner.runtime.training.train import train
from rayner.tasks.base import Progress
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.coreference import CoreferenceTask
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe
from rayner.tasks.resolvers import resolvers
from tests.tasks.chains.small_chains import chains_recipe, story

TRAINING = {"tokens_per_step": 60, "learning_rate": 3e-3, "head_learning_rate": 3e-3, "log_every": 100}


def recipe_of(folder: Path, **parts: Any) -> Any:
    values = chains_recipe(folder, task="coreference", **{"windows": {"length": 48, "overlap": 16}, **parts})
    return parse_recipe(values, "recipe")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few stories, learned until it knows them."""
    folder = tmp_path_factory.mktemp("coreference")
    recipe = recipe_of(
        folder,
        training={**TRAINING, "epochs": 10},
        corpus={"train": [str(folder / "train.jsonl")], "dev": []},
    )
    return Path(train(recipe, folder / "run")["checkpoint"])


def test_the_python_of_its_readme_runs(trained: Path) -> None:
    text = (trained / "README.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0].replace("THIS_FOLDER", str(trained)), names)
    assert [document.text for document in names["documents"]] == ["Ada wrote it, and she signed it."]


def test_texts_are_answered_as_documents_are(trained: Path) -> None:
    document = story(0)
    pipeline = rayner.load(trained)
    [of_text], [of_document] = pipeline.predict(document.text), pipeline.predict(document)
    assert of_text.mentions == of_document.mentions
    assert {mention.chain for mention in of_text.mentions} != {None}


def test_it_learns_stories(trained: Path) -> None:
    loaded = load_checkpoint(trained, "cpu")
    documents = [story(number) for number in range(14)]
    scores = loaded.predictor().evaluate(list(predict(loaded.predictor(), documents)), documents)
    assert scores["conll_f1"] > 0.9
    assert scores["pronouns"]["f1"] > 0.9


def test_an_evaluation_tells_pronouns_from_other_mentions(trained: Path, tmp_path: Path) -> None:
    rows = "".join(json.dumps(document_to_row(story(number))) + "\n" for number in range(14))
    (tmp_path / "corpus.jsonl").write_text(rows)
    scores = evaluate(trained, tmp_path / "corpus.jsonl")
    assert scores["conll_f1"] > 0.9
    assert scores["pronouns"]["f1"] > 0.9
    assert scores["others"]["f1"] > 0.9


def test_a_corpus_without_chains_says_nothing_of_a_model(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"document_id": "a", "text": "Ada ran."}\n')
    with pytest.raises(CorpusError, match="no coreference chain"):
        evaluate(trained, tmp_path / "corpus.jsonl")


def test_it_is_a_resolver_by_its_path(trained: Path) -> None:
    (resolver,) = resolvers([f"ranking:{trained}"])
    document = story(0)
    chains = [[document.text[slice(*span)] for span in chain] for chain in resolver(document)]
    assert sorted(chains) == [["Ada", "she"], ["the old engine", "it"]]
    assert resolver(Document("empty", "")) == []
    assert resolver(Document("marks", " \n")) == []


def test_mentions_that_the_model_cannot_hold_are_rejected_by_name(tmp_path: Path) -> None:
    task = CoreferenceTask(recipe_of(tmp_path, model={"max_span_width": 2}))
    text = "the lamp in the hall and   it"
    mentions = (
        Mention(0, 20, "m", chain="1"),
        Mention(24, 26, "m", chain="1"),
        Mention(27, 29, "m", chain="1"),
        Mention(21, 29, "m", chain="1"),
    )
    rows = list(task.examples([Document("d", text, mentions, sentences=((0, 24), (27, 29)))]))
    assert rows[0]["rejects"] == [
        "d: 0-20: 5 words, over max_span_width 2",
        "d: 24-26: holds no word",
        "d: 21-29: goes over the end of a sentence",
    ]
    assert rows[0]["mentions"].reshape(-1, 3).tolist() == [[6, 6, 1]]


def test_named_entities_beside_chains_are_not_learned_from(tmp_path: Path) -> None:
    """OntoNotes marks a person that nothing refers to as an entity, and no other mention that is alone."""
    task = CoreferenceTask(recipe_of(tmp_path))
    chained = (Mention(0, 3, UNTYPED, chain="1"), Mention(18, 21, UNTYPED, chain="1"))
    entities = (Mention(0, 3, "PERSON"), Mention(8, 14, "GPE"))

    def learned(*mentions: Mention) -> list[list[int]]:
        (row,) = task.examples([Document("d", "Ada saw London and she left", in_order(mentions))])
        return row["mentions"].reshape(-1, 3).tolist()

    assert learned(*chained, *entities) == learned(*chained)
    # Where mentions of chains have types, one that is alone is a chain of its own.
    typed = [replace(mention, type="PERSON") for mention in chained]
    assert len(learned(*typed, entities[1])) == 3
    assert len({chain for *_, chain in learned(*typed, replace(entities[0], type="ALONE"))}) == 1


def test_examples_of_a_document_cover_each_mention_in_some_window(tmp_path: Path) -> None:
    task = CoreferenceTask(recipe_of(tmp_path, windows={"length": 16, "overlap": 7}))
    document = story(3)
    rows = list(task.examples([document]))
    assert len(rows) > 2
    held = {number for row in rows for number in row["mentions"].reshape(-1, 3)[:, 2].tolist()}
    assert held == {1, 2, 3}


def test_words_are_read_after_the_contexts_before_them(tmp_path: Path) -> None:
    task = CoreferenceTask(recipe_of(tmp_path, windows={"length": 48, "overlap": 8, "context": 12}))
    (alone,) = task.examples([story(0)])
    contexts = (Context("Yes .", before=True), Context("No .", before=False))
    (beside,) = task.examples([replace(story(0), contexts=contexts)])
    assert len(beside["ids"]) > len(alone["ids"])
    for ends in ("first", "last"):
        assert beside["ids"][beside[ends]].tolist() == alone["ids"][alone[ends]].tolist()


def test_two_models_are_two_resolvers(trained: Path, tmp_path: Path) -> None:
    other = shutil.copytree(trained, tmp_path / "other")
    given = [f"ranking:{trained}", f"ranking:{other}"]
    with pytest.raises(InputError, match=f"{given[0]}: is given twice"):
        resolvers(given)
    (other / MANIFEST).write_text((other / MANIFEST).read_text() + "\n")
    assert [resolver.name for resolver in resolvers([*given, "rules"])] == [*given, "rules"]
    assert [resolver.name for resolver in resolvers(given[:1])] == ["ranking"]
    for twice in (given[:1] * 2, ["rules", "rules"]):
        with pytest.raises(InputError, match=f"{twice[0]}: is given twice"):
            resolvers(twice)


def test_a_resolver_computes_in_the_precision_that_is_asked_for(trained: Path) -> None:
    ((plain,), (lowered,)) = (resolvers([f"ranking:{trained}"], asked) for asked in (None, "bfloat16"))
    assert lowered.version == f"{plain.version}+bfloat16"
    seen: list[str] = []

    def see(module: nn.Module, *_: Any) -> None:
        if isinstance(module, Encoder):
            seen.append(module.precision)

    with register_module_forward_hook(see):
        for resolver in (plain, lowered):
            assert resolver(story(0))
    assert seen == ["float32", "bfloat16"]
    with pytest.raises(InputError, match="--precision bfloat16: is of rayner's own models"):
        resolvers(["rules"], "bfloat16")


def test_chains_are_joined_over_windows(trained: Path) -> None:
    loaded = load_checkpoint(trained, "cpu")
    values = loaded.recipe.model_dump(mode="json")
    values["windows"] = {**values["windows"], "length": 20, "overlap": 9}
    task = CoreferenceTask(parse_recipe(values, "recipe"), loaded.task.tokenizer)
    document = story(3)
    predictor = task.predictor(loaded.model)
    assert len(predictor.prepare(document)) > 1
    (answer,) = predict(predictor, [document])
    assert all(m.chain is not None and m.head is not None for m in answer.mentions)
    sizes = {m.chain: sum(o.chain == m.chain for o in answer.mentions) for m in answer.mentions}
    assert max(sizes.values()) > 2


def test_antecedents_are_before_apart_and_bounded(tmp_path: Path) -> None:
    task = CoreferenceTask(recipe_of(tmp_path, model={"antecedents": 5, "dropout": 0.0}))
    batch = task.collate(list(task.examples([story(n) for n in range(4)])), [])
    torch.manual_seed(0)
    model = task.build().eval()
    assert isinstance(model, MentionRanking)
    states = model.states(batch.ids, batch.mask)
    mentions, spans = model.mention_scores(states, batch.words)
    found = model.candidates(states, batch.words, mentions, spans, (batch.chains > 0) & spans)
    assert found.score.shape == (len(found.row), 5)
    of = found.antecedent
    assert bool((found.row[of] == found.row[:, None])[found.possible].all())
    assert bool((found.last[of] < found.first[:, None])[found.possible].all())
    kept = {
        tuple(span)
        for span in zip(found.row.tolist(), found.first.tolist(), found.last.tolist(), strict=True)
    }
    gold = {(r, f, f + w) for r, f, w in ((batch.chains > 0) & spans).nonzero().tolist()}
    assert gold <= kept
    sentences = batch.words.sentence
    assert bool((sentences[found.row, found.first] == sentences[found.row, found.last]).all())


def test_a_batch_scores_as_its_rows_do(tmp_path: Path) -> None:
    task = CoreferenceTask(recipe_of(tmp_path, model={"dropout": 0.0}))
    rows = list(task.examples([story(n) for n in range(6)]))
    torch.manual_seed(0)
    model, progress = task.build().double().eval(), Progress(0, 1, 0, 1)
    whole = task.forward(model, task.collate(rows, []), progress).sums
    alone = [task.forward(model, task.collate([row], []), progress).sums for row in rows]
    for part in task.weights:
        total = sum(float(one[part].detach()) for one in alone)
        assert float(whole[part].detach()) == pytest.approx(total, rel=1e-9)
        assert np.isfinite(total)


def test_without_the_library_of_the_scores_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "corefeval", None)
    with pytest.raises(InputError, match="coreference-eval is not installed; pip install"):
        train(recipe_of(tmp_path), tmp_path / "run")
    assert not list(tmp_path.glob("run/*.jsonl"))


def test_a_corpus_without_chains_is_refused(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path)
    (tmp_path / "train.jsonl").write_text('{"document_id": "a", "text": "Ada slept"}\n', encoding="utf-8")
    with pytest.raises(CorpusError, match="has a coreference chain"):
        CoreferenceTask(recipe).items("train")


def test_a_development_part_without_chains_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = recipe_of(tmp_path)
    (tmp_path / "dev.jsonl").write_text('{"document_id": "a", "text": "Ada slept"}\n', encoding="utf-8")
    CoreferenceTask(recipe).items("dev")
    assert "has no coreference chain of two mentions: all steps score alike" in caplog.text


def test_windows_longer_than_the_encoder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"windows\.length"):
        CoreferenceTask(recipe_of(tmp_path, windows={"length": 1024, "overlap": 16})).build()
