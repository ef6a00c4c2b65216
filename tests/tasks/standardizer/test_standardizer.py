"""The standardizer learns, keeps what it learned, and goes on where it was killed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rayner.config import StandardizerRecipe, TypeSettings
from rayner.data import warned_once
from rayner.errors import CheckpointError, InputError, RecipeError
from rayner.metrics.linking import RANKS
from rayner.retrieval import build, entity_index
from rayner.retrieval.entity_table import EntityTable
from rayner.retrieval.lexical import fit_lexical
from rayner.retrieval.pruned import PrunedScores
from rayner.runtime.training.train import train
from rayner.tasks.base import Progress
from rayner.tasks.checkpoint import load_checkpoint, save_checkpoint
from rayner.tasks.kinds.mentions import Mentions
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.linking_options import StandardizerOptions
from rayner.tasks.standardizer.task import LONGEST, StandardizerTask
from tests.killed_training import killed_at
from tests.runtime.training.toy_task import largest_difference, weights_of
from tests.tasks.standardizer.small_names import ENTITIES, small_recipe, write


def task_of(values: dict[str, Any]) -> StandardizerTask:
    recipe = parse_recipe(values, "recipe")
    assert isinstance(recipe, StandardizerRecipe)
    return StandardizerTask(recipe)


@pytest.mark.parametrize("workers", [0])
def test_it_learns_what_is_written_otherwise_and_a_checkpoint_answers_alike(
    tmp_path: Path, workers: int
) -> None:
    nil = write(tmp_path / "nil.jsonl", [{"mention": t, "entity_id": None} for t in ("Bach", "rye bread")])
    values = small_recipe(tmp_path, mentions={"negatives": [str(nil)]}, training={"epochs": 4})
    result = train(parse_recipe(values, "recipe"), tmp_path / "run", workers=workers)
    metrics = result["metrics"]
    assert metrics["top1"] >= 0.7
    assert metrics["linkable"] == 10
    assert metrics["nil"] == 2
    assert metrics["intervals"]["top1"][0] <= metrics["top1"] <= metrics["intervals"]["top1"][1]
    loaded = load_checkpoint(tmp_path / "run/best")
    assert isinstance(loaded.task, StandardizerTask)
    assert loaded.task.fitted.nil is not None
    dev = list(loaded.task.items("dev"))
    predictor = loaded.task.predictor(loaded.model)
    again = predictor.evaluate(list(predict(predictor, dev)), dev)
    assert again["top1"] == metrics["top1"]
    card = (tmp_path / "run/best/README.md").read_text()
    assert "rayner index build" in card
    (tmp_path / "run/best/standardizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"standardizer\.json"):
        load_checkpoint(tmp_path / "run/best")


def test_a_dev_of_mentions_of_other_domains_alone_chooses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nil = write(tmp_path / "nil.jsonl", [{"mention": "rye bread", "entity_id": None}])
    values = small_recipe(tmp_path, mentions={"dev": [], "negatives": [str(nil)]}, training={"epochs": 2})
    result = train(parse_recipe(values, "recipe"), tmp_path / "run", workers=0)
    assert result["metrics"]["top1"] is None
    assert "dev says nothing about top1: best/ is the last step" in caplog.messages
    best, last = (weights_of(tmp_path / "run" / part) for part in ("best", "last"))
    assert largest_difference(best, last) == 0


@pytest.mark.parametrize("with_dev", [True, False])
def test_other_entities_than_those_that_were_learned_are_told(
    with_dev: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A recipe's paths count from the current folder, where other files may have the names of its own."""
    monkeypatch.setattr(warned_once, "_said", set())
    values = small_recipe(tmp_path)
    (base,) = map(Path, values["knowledge_base"]["paths"])
    task = task_of(values)
    model = task.build()
    task.units("train")
    if with_dev:
        task.fit(model, task.strings.dev)
    save_checkpoint(tmp_path / "best", task, model, {})

    def candidates() -> list[str]:
        loaded = load_checkpoint(tmp_path / "best")
        (answer,) = predict(loaded.task.predictor(loaded.model), ["Postgres"])
        return [one.name for one in answer.candidates]

    assert "Postgres" in candidates()
    assert not caplog.records
    base.write_text(base.read_text().replace("Postgres", "Another"))
    assert "Another" in candidates()
    assert f"{base} (counted from {Path.cwd()}): not the entities that this checkpoint has" in caplog.text


def test_a_training_is_scored_by_as_many_candidates_as_an_evaluation(tmp_path: Path) -> None:
    task = task_of(small_recipe(tmp_path))
    (answer,) = predict(task.scorer(task.build().eval()), ["My-SQL base"])
    assert len(answer.candidates) == RANKS == Mentions().evaluation_options["top_k"]


def test_what_the_model_does_not_change_of_an_index_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def noted(texts: Sequence[str], ngrams: Any) -> Any:
        made.append("lexical")
        return fit_lexical(texts, ngrams)

    monkeypatch.setattr(build, "fit_lexical", noted)
    task = task_of(small_recipe(tmp_path))
    model = task.build().eval()
    vectors = []
    for _ in range(2):
        task.fit(model, task.strings.dev)
        vectors.append(task.scorer(model).index.dense.vectors)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)
    assert made == ["lexical"]
    assert not np.allclose(*vectors)


def test_an_evaluation_neither_searches_the_ngrams_of_dev_again_nor_reads_all_names_or_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    of_query = PrunedScores._of_query

    def noted(self: PrunedScores, query: int, needed: int) -> Any:
        searched.append(query)
        return of_query(self, query, needed)

    monkeypatch.setattr(PrunedScores, "_of_query", noted)
    monkeypatch.setattr(entity_index, "MOST_SCORED", 0)
    task = task_of(small_recipe(tmp_path))
    model, dev = task.build().eval(), task.strings.dev
    counts, metrics = [], []
    for _ in range(2):
        task.fit(model, dev)
        scorer = task.scorer(model)
        # From the second evaluation on all that is read of the table is columns.
        monkeypatch.setattr(EntityTable, "__iter__", None)
        metrics.append(scorer.evaluate(list(predict(scorer, dev)), dev))
        counts.append(len(searched))
        monkeypatch.setattr(EntityTable, "texts", None)
    assert counts[0] == counts[1] > len(dev)
    assert metrics[0] == metrics[1]


def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    values = small_recipe(tmp_path, model={"dropout": 0.2}, training={"checkpoint_every": 2})
    recipe = parse_recipe(values, "recipe")
    train(recipe, tmp_path / "whole")
    with killed_at(5):
        train(recipe, tmp_path / "cut")
    train(recipe, tmp_path / "cut")
    for folder in ("last", "best"):
        one, other = (weights_of(tmp_path / run / folder) for run in ("whole", "cut"))
        assert largest_difference(one, other) < 1e-6
    settings = [(tmp_path / run / "best/standardizer.json").read_text() for run in ("whole", "cut")]
    assert settings[0] == settings[1]


@pytest.mark.parametrize("share", [-0.1, 1.5, math.nan, math.inf, "half"])
def test_a_share_of_nil_is_a_share(tmp_path: Path, share: Any) -> None:
    with pytest.raises(RecipeError, match="nil_share"):
        parse_recipe(small_recipe(tmp_path, nil_share=share), "recipe")
    with pytest.raises(InputError, match="nil_share"):
        StandardizerOptions.of({"nil_share": share}, "standardizer")


def test_the_share_of_nil_is_the_recipes_unless_asked_otherwise(tmp_path: Path) -> None:
    task = task_of(small_recipe(tmp_path, nil_share=0.3))
    model = task.build().eval()
    task.fit(model, list(task.items("dev")))
    assert task.fitted.nil is not None

    def probability(**options: Any) -> float:
        (answer,) = predict(task.predictor(model, StandardizerOptions(**options)), ["My-SQL base"])
        assert answer.probability is not None
        return answer.probability

    assert probability() == probability(nil_share=0.3) < probability(nil_share=0.0)


def test_examples_are_the_name_and_whatever_else_it_is_called(tmp_path: Path) -> None:
    values = small_recipe(tmp_path, aliases=False, augmentation={"prefixes": ["MS"]})
    del values["mentions"]["train"]
    with pytest.raises(InputError, match=r"mentions\.train"):
        task_of(values).items("train")
    task = task_of(small_recipe(tmp_path, augmentation={"prefixes": ["MS"]}))
    rows = list(task.examples(task.items("train")))
    assert Counter(row["entity_id"] for row in rows) == dict.fromkeys(ENTITIES, 3)
    assert [row["text"] for row in rows[:3]] == list(ENTITIES["1"][:3])
    assert [row["vary"] for row in rows[:3]] == ["never", "drawn", "drawn"]
    assert {row["prefix"] for row in rows[:3]} == {"MS"}
    assert rows[3]["prefix"] is None


def test_an_entity_with_one_string_is_held_against_a_variant_of_it(tmp_path: Path) -> None:
    values = small_recipe(tmp_path)
    base = [{"entity_id": str(i), "name": f"system number {i}"} for i in range(4)] + [
        {"entity_id": "x", "name": "Long " * 200, "aliases": ["Longer"]}
    ]
    values["knowledge_base"]["paths"] = [str(write(tmp_path / "alone.jsonl", base))]
    values["mentions"] = {}
    task = task_of(values)
    rows = list(task.examples(task.items("train")))
    assert [row["vary"] for row in rows[:2]] == ["never", "always"]
    assert len(rows[8]["ids"]) == LONGEST
    assert "200 sub-words, of which" in rows[8]["rejects"][0]
    batch = task.collate(rows[:8], [(1, 0, i) for i in range(8)])
    again = task.collate(rows[:8], [(1, 0, i) for i in range(8)])
    assert sum(int(mask.sum()) for _, mask in batch.chunks) == sum(int(m.sum()) for _, m in again.chunks)
    assert len(set(batch.entities[:, 0].tolist())) == 4


def test_variants_are_those_of_the_example_whatever_batch_it_is_in(tmp_path: Path) -> None:
    task = task_of(small_recipe(tmp_path, augmentation={"misspelling": 0.8}))
    rows = list(task.examples(task.items("train")))
    seeds = [(1, 0, i) for i in range(len(rows))]

    def strings(numbers: range) -> Counter[tuple[int, ...]]:
        batch = task.collate([rows[i] for i in numbers], [seeds[i] for i in numbers])
        pairs = ((ids, mask) for chunk in batch.chunks for ids, mask in zip(*chunk, strict=True))
        return Counter(tuple(ids[mask].tolist()) for ids, mask in pairs)

    assert strings(range(30)) == strings(range(13)) + strings(range(13, 30))
    assert strings(range(30)) != Counter(
        (task.tokenizer.cls_id, *map(int, row["ids"]), task.tokenizer.sep_id) for row in rows
    )


def test_equal_strings_are_encoded_once_and_in_any_company(tmp_path: Path) -> None:
    task = task_of(small_recipe(tmp_path))
    model = task.build()
    texts = ["IIS", "a much longer name of a system than the others", "IIS", "", "\U0001f600", "句"]
    vectors = task.encode(model, texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 32)
    assert np.array_equal(vectors[0], vectors[2])
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(task.encode(model, [text])[0], vector, atol=1e-5)
    assert task.encode(model, []).shape == (0, 32)
    assert model.training


@pytest.mark.parametrize("normalize", [False, True])
def test_a_long_name_is_read_whole(tmp_path: Path, normalize: bool) -> None:
    task = task_of(small_recipe(tmp_path, model={"normalize": normalize}))
    model = task.build().eval()
    whole, rest = "server " * LONGEST, "Java " * (LONGEST // 2)
    assert [len(ids) for ids, _ in task.tokenizer.batch([whole, rest])] == [LONGEST, LONGEST // 2]
    first, last, short = task.encode(model, [whole, rest, "IIS"])
    long, with_short, again = task.encode(model, [whole + rest, "IIS", whole])
    expected = (2 * first + last) / 3
    expected = expected / np.linalg.norm(expected) if normalize else expected
    np.testing.assert_allclose(long, expected, atol=1e-5)
    assert np.abs(long - first).max() > 1e-3
    np.testing.assert_allclose(with_short, short, atol=1e-5)
    np.testing.assert_allclose(again, first, atol=1e-5)


def test_the_hybrid_schedule_takes_all_triplets_then_the_hardest(tmp_path: Path) -> None:
    torch.manual_seed(0)
    vectors, labels = torch.randn(12, 4), torch.arange(12)[:, None] // 3
    own = torch.arange(12)

    def objective(mining: str, epoch: int, epochs: int) -> float:
        task = task_of(small_recipe(tmp_path, loss={"mining": mining, "distance": "euclidean"}))
        progress = Progress(step=1, steps=9, epoch=epoch, epochs=epochs)
        total, count = task.contrast(vectors, vectors, labels, own, progress)["contrast"]
        return float(total / count)

    soft, hard = objective("batch_all", 0, 4), objective("batch_hard", 0, 4)
    assert soft != hard
    assert [objective("hybrid", epoch, 4) for epoch in range(4)] == [soft, soft, hard, hard]
    assert [objective("hybrid", epoch, 3) for epoch in range(3)] == [soft, soft, hard]


def test_patience_does_not_end_a_hybrid_training_before_the_hardest_triplets(tmp_path: Path) -> None:
    def first_counted(mining: str, epochs: int) -> int:
        values = small_recipe(tmp_path, loss={"mining": mining}, training={"epochs": epochs})
        return task_of(values).patience_epoch

    assert [first_counted("hybrid", epochs) for epochs in (2, 3, 4)] == [2, 3, 3]
    assert first_counted("batch_hard", 4) == 1


def test_options_of_documents_are_refused() -> None:
    with pytest.raises(InputError, match=r"shift: is no option of a standardizer; its options are index"):
        StandardizerOptions.of({"shift": 1.0}, "standardizer")
    # What the command line makes of the file of `--types`.
    with pytest.raises(
        InputError, match=r"^types\.0: is no name of a type; a standardizer looks for no types"
    ):
        StandardizerOptions.of({"types": [TypeSettings(name="Tree")]}, "standardizer")
