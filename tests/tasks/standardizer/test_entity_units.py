"""How a knowledge base reaches the workers of a training: in parts that many of them read, and in arrays."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import chain, islice, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from rayner.data import example_shards
from rayner.data.schema import Entity
from rayner.retrieval import build, entity_index
from rayner.retrieval.lexical import fit_lexical
from rayner.runtime.training.example_building import build_examples
from rayner.tasks.base import Unit
from rayner.tasks.encoder_task import EncoderTask
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.task import StandardizerTask
from tests.tasks.standardizer.small_names import ENTITIES, small_recipe, write

WORDS = ("soft", "hard", "ware", "house", "keeper", "light", "green", "board", "walk", "way", "side", "line")


class InOnePart(StandardizerTask):
    """All entities are one unit."""

    def units(self, split: Literal["train", "dev"], *_: Any) -> Sequence[Unit]:
        return EncoderTask.units(self, split)


def task_of(values: dict[str, Any], kind: type[StandardizerTask] = StandardizerTask) -> StandardizerTask:
    return kind(parse_recipe(values, "recipe"))  # type: ignore[arg-type]


def large(folder: Path, names: int) -> StandardizerTask:
    """Of a knowledge base of so many names of three of `WORDS`, three an entity."""
    values = small_recipe(folder)
    texts = islice(map(" ".join, product(WORDS, repeat=3)), names)
    rows = [
        {"entity_id": f"{number}", "name": name, "aliases": [next(texts), next(texts)]}
        for number, name in enumerate(texts)
    ]
    write(folder / "base.jsonl", rows)
    return task_of(values)


def sent(task: StandardizerTask) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """What travels to a worker: the pickle, and beside it what lies once on a node."""
    beside: list[pickle.PickleBuffer] = []
    return pickle.dumps(task.for_workers(task.units("dev")), 5, buffer_callback=beside.append), beside


def bytes_of(beside: Sequence[pickle.PickleBuffer]) -> int:
    return sum(buffer.raw().nbytes for buffer in beside)


def test_entities_are_read_in_parts_of_a_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_shards, "ITEMS_PER_SHARD", 4)
    values = small_recipe(tmp_path)
    task, whole = task_of(values), task_of(values, InOnePart)
    units = task.units("train")
    assert [len(unit.sizes) for unit in units] == [4, 4, 2]
    assert len({unit.digest for unit in units}) == 3
    assert list(chain.from_iterable(map(task.read, units))) == list(task.items("train"))
    assert str(units[1].source) == "entities 5 to 8 of the knowledge base"
    monkeypatch.setattr(example_shards, "CHARACTERS_PER_SHARD", 1)
    assert [len(unit.sizes) for unit in task.units("train")] == [1] * len(ENTITIES)
    monkeypatch.undo()
    assert [len(unit.sizes) for unit in task.units("train")] == [len(ENTITIES)]
    assert whole.units("dev")[0].digest == task.units("dev")[0].digest


@pytest.mark.parametrize(("items", "characters"), [(4, 2**20), (2048, 300)])
def test_parts_make_the_examples_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, items: int, characters: int
) -> None:
    monkeypatch.setattr(example_shards, "ITEMS_PER_SHARD", items)
    monkeypatch.setattr(example_shards, "CHARACTERS_PER_SHARD", characters)
    values = small_recipe(tmp_path, augmentation={"prefixes": ["MS"]})
    parts, whole = (
        build_examples(task_of(values, kind), tmp_path / kind.__name__).manifest
        for kind in (StandardizerTask, InOnePart)
    )
    assert parts["shards"] == whole["shards"] > 1
    assert parts["content"] == whole["content"]


def test_strings_of_many_entities_are_tokenized_together(tmp_path: Path) -> None:
    task = task_of(small_recipe(tmp_path))
    asked: list[int] = []
    tokenized = task._tokenized

    def noted(texts: Sequence[str]) -> list[list[int]]:
        asked.append(len(texts))
        return tokenized(texts)

    task._tokenized = noted  # type: ignore[method-assign]
    entities = [*task.items("train"), Entity("lone", "Ada")]
    rows = list(task.examples(entities))
    assert asked == [len(rows)] == [3 * len(ENTITIES) + 2]
    alone = [row for entity in entities for row in task.examples([entity])]
    assert [(row["text"], row["ids"].tolist()) for row in rows] == [
        (row["text"], row["ids"].tolist()) for row in alone
    ]


def test_a_knowledge_base_travels_in_arrays(tmp_path: Path) -> None:
    few, many = (sent(large(tmp_path / str(names), names)) for names in (600, 1500))
    assert bytes_of(many[1]) > 1.8 * bytes_of(few[1])
    # Names of the same words have the same n-grams.
    assert len(many[0]) < len(few[0]) + 900, "an object of Python for each name"


@pytest.mark.parametrize("most", [entity_index.MOST_SCORED, 10])
def test_a_worker_makes_nothing_of_names_and_finds_what_the_driver_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(entity_index, "MOST_SCORED", most)
    made: list[str] = []

    def noted(texts: Sequence[str], ngrams: Any) -> Any:
        made.append("lexical")
        return fit_lexical(texts, ngrams)

    monkeypatch.setattr(build, "fit_lexical", noted)
    task = large(tmp_path, 300)
    content, beside = sent(task)
    assert made == ["lexical"]
    # As Ray hands them out: once on a node, and not to be written to.
    node = [bytes(buffer.raw()) for buffer in beside]
    worker: StandardizerTask = pickle.loads(content, buffers=node)
    assert not worker.strings.mentions
    lexical = worker._text_side.lexical
    for weights in [lexical.postings.data, *([lexical.by_name.data] if most == 10 else [])]:
        assert any(np.shares_memory(weights, np.frombuffer(part, np.uint8)) for part in node)
    torch.manual_seed(1)
    model = task.build().eval()
    found = []
    for one in (worker, task):
        dev = one.strings.dev
        one.fit(model, dev)
        index = one.scorer(model).index
        texts = [mention.text for mention in dev]
        found.append((index.search(texts, one.encode(model, texts), 5, 0.5), one.fitted))
        assert made == ["lexical"] if one is worker else ["lexical"] * 2
    assert found[0] == found[1]


def test_nothing_is_made_for_a_training_without_dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(build, "fit_lexical", lambda *given: made.append(given))
    values = small_recipe(tmp_path)
    values["mentions"] = {"train": values["mentions"]["train"]}
    task = task_of(values)
    again = pickle.loads(pickle.dumps(task.for_workers(task.units("dev"))))
    assert [*again.strings.indexed] == [*task.strings.indexed]
    assert made == []
