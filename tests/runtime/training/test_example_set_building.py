from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rayner.data import example_shards, scans
from rayner.data.example_sets import ExampleSet
from rayner.data.example_shards import fingerprint
from rayner.errors import CheckpointError, CorpusError, FileError, RaynerError
from rayner.files.publishing import Publication
from rayner.runtime.parallel import parallel_map
from rayner.runtime.training import example_building
from rayner.runtime.training.example_building import build_examples, cache_here, find_units, read_all
from rayner.tasks.base import ParallelMap, Unit
from rayner.tasks.registry import parse_recipe, train_task
from tests.object_storage import BUCKET, Storage
from tests.runtime.training.several_workers import tiny_recipe


class Letters:
    """Two examples a word, with the codes of its letters."""

    examples_version = 1
    words_a_unit = 1000
    examples_ask_model = False

    def __init__(self, words: list[str], **settings: Any) -> None:
        self.words, self.settings, self.made = words, settings, 0

    def units(self, split: str, mapper: ParallelMap = map, cache: Path | None = None) -> list[Unit]:
        begins = range(0, len(self.words), self.words_a_unit)
        return [Unit(begin, *fingerprint(self._words(begin))) for begin in begins]

    def read(self, unit: Unit) -> Iterable[str]:
        return self._words(unit.source)

    def _words(self, begin: int) -> list[str]:
        return self.words[begin : begin + self.words_a_unit]

    def example_settings(self) -> dict[str, Any]:
        return self.settings

    def examples(self, items: Iterable[str]) -> Iterator[dict[str, Any]]:
        for word in items:
            self.made += 1
            if word == "refused":
                raise CorpusError("words:7", "is refused", "take another")
            if word == "without its encoder":
                raise CheckpointError("encoder", "is not on this node", "copy it there")
            if word == "nothing":
                continue
            if word == "failing":
                raise RaynerError("the machine is on fire")
            if word == "crashing":
                raise RuntimeError("a bug")
            for copy in range(2):
                codes = [ord(c) for c in word]
                yield {"codes": codes, "copy": copy, "length": len(codes), "group": word[0]}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example_shards, "ITEMS_PER_SHARD", 7)


WORDS = [f"{'abc'[i % 3]}{i}" for i in range(60)]


def content(found: ExampleSet) -> list[tuple[list[int], int]]:
    return [(e["codes"].tolist(), e["copy"]) for e in found.fetch(range(len(found)))]


def test_examples_keep_the_order_of_the_items(tmp_path: Path) -> None:
    found = build_examples(Letters(WORDS), tmp_path)
    assert content(found) == [([ord(c) for c in w], copy) for w in WORDS for copy in range(2)]
    assert found.groups is not None
    assert list(found.groups) == [w[0] for w in WORDS for _ in range(2)]
    np.testing.assert_array_equal(found.lengths, [len(w) for w in WORDS for _ in range(2)])


def test_the_same_set_whatever_the_workers(tmp_path: Path, ray_cluster: None, storage: Storage) -> None:
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    words = [*WORDS, "refused", *WORDS]
    tasks = [Letters(words) for _ in range(3)]
    for task in tasks:
        task.words_a_unit = 9
    alone = build_examples(tasks[0], tmp_path / "0", workers=0)
    shared = build_examples(tasks[1], tmp_path / "2", workers=2)
    sent = build_examples(tasks[2], Path(f"s3://{BUCKET}/sets"), workers=2)
    assert [task.made > 0 for task in tasks] == [True, False, False]
    assert alone.manifest["shards"] == 14 * 2 - 1
    names = sorted(p.name for p in alone.folder.iterdir())
    for other in (shared, sent):
        assert names == sorted(p.name for p in other.folder.iterdir())
        assert all((alone.folder / n).read_bytes() == (other.folder / n).read_bytes() for n in names)
        assert content(alone) == content(other)
    with pytest.raises(RaynerError, match="on fire"):
        build_examples(Letters(["failing"]), tmp_path, workers=2)


def test_what_a_node_lacks_is_no_fault_of_an_item(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not on this node"):
        build_examples(Letters(["a", "without its encoder", "b"]), tmp_path)
    assert len(build_examples(Letters(["a", "b"]), tmp_path)) == 4


def test_a_set_without_an_example_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no example can be made of any item"):
        build_examples(Letters(["nothing", "nothing"]), tmp_path)


def test_a_set_that_only_lacked_its_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(partial: Path, folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(example_building, "place_folder", killed)
        with pytest.raises(KeyboardInterrupt):
            build_examples(Letters(WORDS), tmp_path)
    task = Letters(WORDS)
    found = build_examples(task, tmp_path)
    assert (content(found), task.made) == (
        content(build_examples(Letters(WORDS), tmp_path / "b")),
        0,
    )


def test_documents_make_the_same_set_whatever_the_workers(
    tmp_path: Path, ray_cluster: None, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that workers find, read and cut, named as they are from the driver's folder."""
    values = tiny_recipe(tmp_path, "recognizer")
    rows = (tmp_path / "corpus.jsonl").read_text().splitlines()
    (tmp_path / "corpus").mkdir()
    for number, row in enumerate(rows):
        (tmp_path / "corpus" / f"{number:02}.jsonl").write_text(row)
    values["corpus"] = {"train": ["corpus"], "dev_fraction": 0.3}
    monkeypatch.setattr(scans, "PART_UNITS", 4)
    monkeypatch.chdir(tmp_path)
    recipe = parse_recipe(values, "recipe")
    alone = build_examples(train_task(recipe), tmp_path / "0", workers=0)
    shared = build_examples(train_task(recipe), tmp_path / "2", workers=2)
    assert alone.manifest == shared.manifest
    assert alone.manifest["shards"] == 8
    # The workers of the cluster see neither what this machine has fetched, nor what it keeps.
    at_uri = Publication(f"s3://{BUCKET}/corpus-of-sets")
    at_uri.open()
    shutil.copytree(tmp_path / "corpus", at_uri.folder, dirs_exist_ok=True)
    at_uri.push()
    values["corpus"]["train"] = [at_uri.uri]
    cache = Path(f"s3://{BUCKET}/sets-of-documents")
    sent = build_examples(train_task(parse_recipe(values, "recipe")), cache, workers=2)
    assert sent.manifest["content"] == alone.manifest["content"]
    assert len(list(cache_here(cache).rglob("scans/**/*.parquet"))) == 8
    task = train_task(recipe)
    dev = read_all(task, find_units(task, "dev", tmp_path / "2", 2))
    assert alone.manifest["items"] + len(dev) == len(rows)
    units = find_units(task, "train", tmp_path / "2", 2)
    (tmp_path / "corpus" / "03.jsonl").unlink()
    with pytest.raises(FileError, match=r"corpus/03\.jsonl: No such file"):
        list(parallel_map(task.read, units))


def test_a_finished_set_is_reused(tmp_path: Path) -> None:
    first = build_examples(Letters(WORDS, size=1), tmp_path)
    task = Letters(WORDS, size=1)
    assert build_examples(task, tmp_path).folder == first.folder
    assert task.made == 0
    assert build_examples(Letters(WORDS, size=2), tmp_path).folder != first.folder
    assert build_examples(Letters(WORDS[1:], size=1), tmp_path).folder != first.folder


def test_two_builds_at_once_do_the_work_once(tmp_path: Path) -> None:
    tasks = [Letters(WORDS) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda task: content(build_examples(task, tmp_path)), tasks))
    assert all(one == found[0] for one in found)
    assert sorted(task.made for task in tasks) == [0, 0, 0, len(WORDS)]


def test_shards_of_a_crashed_build_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = build_examples(Letters(WORDS), tmp_path / "undisturbed")
    task = Letters(WORDS)
    written = []

    def dies(*arguments: Any) -> None:
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(arguments[1])
        example_shards.write_shard(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("rayner.runtime.training.example_building.write_shard", dies)
        with pytest.raises(KeyboardInterrupt):
            build_examples(task, tmp_path)
    task.made = 0
    resumed = build_examples(task, tmp_path)
    assert task.made == len(WORDS) - 5 * 7
    assert content(resumed) == content(undisturbed)


def test_refused_items_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = build_examples(Letters(["ab", "refused", "cd"]), tmp_path)
    assert len(found) == 4
    assert found.manifest["rejected"] == 1
    assert "words:7" in (found.folder / "rejects.jsonl").read_text()
    assert "1 item or mention left out" in caplog.text


def test_all_items_refused_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is refused"):
        build_examples(Letters(["refused"]), tmp_path)
    with pytest.raises(RuntimeError, match="a bug"):
        build_examples(Letters(["crashing"]), tmp_path)


def test_no_items_make_an_empty_set(tmp_path: Path) -> None:
    assert len(build_examples(Letters([]), tmp_path)) == 0
