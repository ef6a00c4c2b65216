"""Documents as units: what workers read is what a process would that holds them all."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayner.config import CorpusSettings
from rayner.counted import counted
from rayner.data import scans, warned_once
from rayner.data.fine_types import gold_types
from rayner.data.readers import files
from rayner.data.schema import Document, chained, story_of
from rayner.errors import CorpusError, FileError
from rayner.tasks import corpus_task
from rayner.tasks.base import Unit
from rayner.tasks.registry import parse_recipe, train_task
from rayner.tasks.splits import (
    Change,
    Split,
    change_of,
    document_units,
    read_documents,
)
from tests.tasks.small import recognizer
from tests.whole_corpora import split_documents

rows = st.fixed_dictionaries(
    {
        "document_id": st.integers(0, 30).map(lambda n: f"é{n}"),
        "text": st.sampled_from(["Ulm", "Ulm  Ada", "Ulm Ada", " ", "Ada", "Bonn", "Köln"]),
        "group": st.sampled_from([None, None, None, "g", "h"]),
        "mentions": st.sampled_from(
            [
                [],
                [{"start": 0, "end": 1, "type": "A"}],
                [{"start": 0, "end": 1, "type": kind, "chain": "c"} for kind in "AB"],
                [{"start": 0, "end": 1, "type": "A", "types": [{"name": "/a/b", "score": 1.0}]}],
            ]
        ),
    }
)


def write(folder: Path, parts: Sequence[Sequence[dict[str, Any]]]) -> tuple[str, ...]:
    paths = [folder / f"{number}.jsonl" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in part))
    return tuple(map(str, paths))


def read_in_units(corpus: CorpusSettings, split: Split, mapper: Any = map) -> list[Document]:
    change = change_of(corpus, split)
    units = document_units(corpus, split, change, mapper).units
    read = [read_documents(unit, change) for unit in units]
    assert [len(documents) for documents in read] == [len(unit.sizes) for unit in units]
    return [document for documents in read for document in documents]


def refused_or(read: Callable[[], Sequence[Document]]) -> Sequence[Document] | str:
    """The documents, or why there are none."""
    try:
        return read()
    except CorpusError as error:
        return str(error)


def backwards(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
    return map(work, list(parts)[::-1])


def message_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if "cannot be read" in r.getMessage()]
    caplog.clear()
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=5), st.booleans(), st.data())
def test_units_are_the_documents_of_the_split(
    tmp_path: Path, parts: list[list[dict[str, Any]]], held_out: bool, data: st.DataObject
) -> None:
    """Whatever lies in which file: ids given twice, texts given twice, groups, nothing but white space."""
    corpus = CorpusSettings(
        train=write(tmp_path, parts),
        dev_fraction=data.draw(st.sampled_from([0.2, 0.5])) if held_out else 0,
        rename={"A": "B"},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scans, "PART_UNITS", data.draw(st.integers(1, 3)))
        for split in ("train", "dev"):
            expected = refused_or(lambda split=split: split_documents(corpus, split))
            if isinstance(expected, str):
                assert refused_or(lambda split=split: read_in_units(corpus, split)) == expected
                continue
            assert read_in_units(corpus, split) == expected
            assert read_in_units(corpus, split, backwards) == expected
            found = document_units(corpus, split, change_of(corpus, split))
            assert found.mentions == Counter(m.type for d in expected for m in d.mentions)
            assert found.fine_types == Counter(t for d in expected for m in d.mentions for t in gold_types(m))
            assert found.stories == len({story_of(d) for d in expected if chained(d)})


@pytest.mark.parametrize("second", [["f", "g"], ["g", "e"], ["e", "f"]])
def test_what_cannot_be_read_is_told_as_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, second: list[str]
) -> None:
    """Documents of two files with one id: both ways count the same, and name the same first."""
    first = [{"document_id": name, "text": "Ulm"} for name in "abcdef"]
    corpus = CorpusSettings(
        train=write(tmp_path, [first, [{"document_id": name, "text": "Ada"} for name in second]])
    )
    monkeypatch.setattr(scans, "PART_UNITS", 1)
    monkeypatch.chdir(tmp_path)
    relative = corpus.model_copy(update={"train": ("0.jsonl", "1.jsonl")})
    messages = []
    for read in (split_documents, read_in_units):
        monkeypatch.setattr("rayner.tasks.splits.warn_once", logging.Logger.warning)
        for settings_ in (corpus, relative):
            with caplog.at_level(logging.WARNING):
                read(settings_, "train")
            messages.append(message_of(caplog))
    assert messages[:2] == [[m] for (m,) in messages[:2]]
    lost = counted(len(set(second) & set("ef")), "document or mention", "documents or mentions")
    assert f": {lost} (" in messages[0][0]
    assert messages[3] == messages[1]
    assert "the first: 1.jsonl:" in messages[3][0]
    assert messages[2][0].replace(f"{tmp_path}/", "") == messages[0][0].replace(f"{tmp_path}/", "")


def spy(seen: list[Any]) -> Any:
    def each(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
        seen.extend(parts)
        return map(work, parts)

    return each


def digests(units: Sequence[Unit]) -> list[str]:
    return [unit.digest for unit in units]


def test_files_are_looked_at_again_only_when_they_change(tmp_path: Path) -> None:
    paths = write(tmp_path, [[{"document_id": f"d{i}", "text": f"Ulm {i}"} for i in range(20)]] * 1)
    corpus, cache = CorpusSettings(train=paths, dev_fraction=0.3), tmp_path / "cache"
    change, seen = change_of(corpus, "train"), list[Any]()
    found = document_units(corpus, "train", change, spy(seen), cache)
    assert len(seen) == 1
    for split in ("train", "dev"):
        document_units(corpus, split, change, spy(seen), cache)
    assert len(seen) == 1
    assert digests(document_units(corpus, "train", change, spy(seen), cache).units) == digests(found.units)
    os.utime(paths[0], ns=(1, 1))
    again = document_units(corpus, "train", change, spy(seen), cache)
    assert len(seen) == 2
    assert digests(again.units) == digests(found.units)
    with Path(paths[0]).open("a") as file:
        file.write(json.dumps({"document_id": "new", "text": "Bonn", "group": "a group of train"}) + "\n")
    later = document_units(corpus, "train", change, spy(seen), cache)
    assert len(seen) == 3
    assert digests(later.units) != digests(found.units)


def test_a_file_that_changes_or_goes_away_fails_the_reading(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[{"document_id": "d", "text": "Ulm"}]])
    corpus = CorpusSettings(train=(path,))
    change = change_of(corpus, "train")
    (unit,) = document_units(corpus, "train", change).units
    Path(path).write_text(json.dumps({"document_id": "d", "text": "Ada"}) + "\n")
    with pytest.raises(FileError, match=r"0\.jsonl: does not hold what it held"):
        read_documents(unit, change)
    Path(path).unlink()
    with pytest.raises(FileError, match=r"0\.jsonl: No such file"):
        read_documents(unit, change)


def test_a_file_that_changes_while_it_is_looked_at_fails_the_reading(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[{"document_id": "d", "text": "Ulm"}]])
    corpus = CorpusSettings(train=(path,))

    def late(work: Callable[[Any], Any], parts: Sequence[Any]) -> Iterator[Any]:
        if parts:
            os.utime(path, ns=(1, 1))
        return map(work, parts)

    with pytest.raises(FileError, match=r"0\.jsonl: changed while it was read"):
        document_units(corpus, "train", change_of(corpus, "train"), late)


def test_a_copy_of_another_time_is_as_good(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[{"document_id": "d", "text": "Ulm"}]])
    corpus = CorpusSettings(train=(path,))
    change = change_of(corpus, "train")
    (unit,) = document_units(corpus, "train", change).units
    os.utime(path, ns=(1, 1))
    assert [d.text for d in read_documents(unit, change)] == ["Ulm"]


def test_of_a_document_only_some_bytes_are_held(tmp_path: Path) -> None:
    many = [{"document_id": f"d{i}", "text": f"{i} " + "word " * 2000} for i in range(300)]
    corpus = CorpusSettings(train=write(tmp_path, [many]))
    (unit,) = document_units(corpus, "train", change_of(corpus, "train")).units
    assert unit.sizes.nbytes + unit.source.rows.nbytes <= 5 * len(many)
    (part,) = scans.cut_parts([*unit.source.part.units])
    assert scans.scan(change_of(corpus, "train"), part).table.nbytes <= 100 * len(many)


def test_a_corpus_without_documents_names_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "0.jsonl").write_text("no JSON\n")
    corpus = CorpusSettings(train=(str(tmp_path / "0.jsonl"),))
    for read in (split_documents, read_in_units):
        with pytest.raises(CorpusError, match=r"0.jsonl:1: not JSON .*; write one JSON object a line"):
            read(corpus, "train")


@pytest.mark.parametrize("task", ["tagger", "typer"])
def test_a_dev_without_a_mention_to_find_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    for name, kind in {"train": "A", "dev": "B"}.items():
        row = {"id": name, "text": f"Ada {name}", "mentions": [{"start": 0, "end": 3, "type": kind}]}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    train, dev = ([str(tmp_path / f"{name}.jsonl")] for name in ("train", "dev"))
    values = {"task": task, "encoder": "random:8x1", "types": [{"name": "A"}]}
    for is_told, of_dev in ((True, dev), (False, train), (False, [])):
        found: Any = train_task(parse_recipe({**values, "corpus": {"train": train, "dev": of_dev}}, "test"))
        caplog.clear()
        monkeypatch.setattr(warned_once, "_said", set())
        assert list(found.items("train"))
        assert bool(list(found.items("dev"))) == bool(of_dev)
        assert ("the development part has no mention of A" in caplog.text) == is_told


@pytest.mark.parametrize("task", ["tagger", "chains"])
def test_files_of_dev_that_are_learned_from_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, task: str
) -> None:
    """By whatever path they are named; a task that leaves the stories of dev out has nothing to tell."""
    monkeypatch.setattr(warned_once, "_said", set())
    monkeypatch.chdir(tmp_path)
    Path("books").mkdir()
    first, second = write(Path("books"), [[{"document_id": f"d{i}", "text": "Ulm"}] for i in range(2)])
    Path("link").symlink_to("books")
    types = {} if task == "chains" else {"types": [{"name": "A"}]}
    for train, dev in (
        (["link"], first),
        ([str(Path(first).absolute()), second], "books"),
        ([second], first),
    ):
        corpus = {"train": train, "dev": [dev]}
        values = {"task": task, "encoder": "random:8x1", "corpus": corpus, **types}
        assert train_task(parse_recipe(values, "test")).units("dev")
    told = [r.getMessage().partition(":")[0] for r in caplog.records if "of corpus.train" in r.getMessage()]
    files = ("1 file", "2 files") if task == "tagger" else ()
    assert told == [f"corpus.dev has {count} of corpus.train (books/0.jsonl)" for count in files]


def test_dev_needs_no_dictionary(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[{"document_id": "d", "text": "Ulm"}]])
    corpus = CorpusSettings(train=(path,), dev=(path,), dictionary="/nowhere/names.txt")
    assert [d.text for d in read_in_units(corpus, "dev")] == ["Ulm"]


def test_labels_count_among_the_mentions(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [[{"document_id": "d", "text": "Ulm Ada"}]])
    (tmp_path / "names.txt").write_text("CITY\tUlm\n")
    corpus = CorpusSettings(train=(path,), dictionary=str(tmp_path / "names.txt"), rename={"CITY": "PLACE"})
    found = document_units(corpus, "train", change_of(corpus, "train"))
    assert found.mentions == {"PLACE": 1}
    with (tmp_path / "names.txt").open("a") as file:
        file.write("PER\tAda\n")
    other = document_units(corpus, "train", change_of(corpus, "train"))
    assert digests(other.units) != digests(found.units)
    np.testing.assert_array_equal(other.units[0].sizes, found.units[0].sizes)


def test_a_dictionary_is_read_once_for_what_is_learned_and_what_is_set_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = write(tmp_path, [[{"document_id": "d", "text": "Ulm Ada"}]])
    (tmp_path / "names.txt").write_text("PER\tAda\n")
    read: list[str] = []

    def noted(corpus: CorpusSettings, part: Any) -> Any:
        read.append(part)
        return change_of(corpus, part)

    monkeypatch.setattr(corpus_task, "change_of", noted)
    task = recognizer(corpus={"train": [path], "dictionary": str(tmp_path / "names.txt")})
    for _ in range(2):
        assert task.units("train")
        assert not task.calibration_units()
        assert not task.units("dev")
    assert read == ["train", "dev"]


def test_who_annotated_what_is_part_of_the_units(tmp_path: Path) -> None:
    """Documents that move from one file to the next are in the same order, and annotated for other types."""
    rows = [{"document_id": f"d{i}", "text": "Ulm"} for i in range(4)]
    found = []
    for border in (1, 3):
        train = write(tmp_path, [rows[:border], rows[border:]])
        corpus = CorpusSettings(train=train, annotated={train[0]: ("A",)})
        documents = read_in_units(corpus, "train")
        assert [d.annotated_types for d in documents] == [("A",)] * border + [None] * (4 - border)
        found.append(digests(document_units(corpus, "train", change_of(corpus, "train")).units))
    assert found[0] != found[1]


def test_what_was_fetched_to_another_folder_is_annotated_alike(tmp_path: Path) -> None:
    change = Change({}, annotated=(("s3://bucket/a.jsonl", ("A",)),))
    for root in ("/home/one/.cache/rayner/fetched/0a", "/mnt/two/fetched/0a"):
        assert change.types_at(f"{root}/s3:/bucket/a.jsonl:3") == ("A",)
        assert change.types_at(f"{root}/s3:/bucket/ab.jsonl:3") is None


def test_a_large_file_of_blank_lines_has_no_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0.jsonl").write_text("\n" * 100)
    monkeypatch.setattr(files, "PART_BYTES", 10)
    monkeypatch.setattr(scans, "PART_BYTES", 10)
    with pytest.raises(CorpusError, match=r"0\.jsonl: no documents in it"):
        read_in_units(CorpusSettings(train=(str(tmp_path / "0.jsonl"),)), "train")


@pytest.mark.parametrize("cached", [False, True])
def test_parts_of_a_large_file_are_its_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """Rows without an id are named by their line, and some are given twice, far from each other."""
    many = [{"document_id": f"d{i % 90}" if i % 3 else None, "text": f"Ulm {i % 40}"} for i in range(200)]
    corpus = CorpusSettings(train=write(tmp_path, [many]), dev_fraction=0.3)
    monkeypatch.setattr(files, "PART_BYTES", 500)
    monkeypatch.setattr(scans, "PART_BYTES", 500)
    for split in ("train", "dev", "train"):
        change = change_of(corpus, split)
        units = document_units(corpus, split, change, map, tmp_path / "cache" if cached else None).units
        assert len(units) > 5
        documents = [document for unit in units for document in read_documents(unit, change)]
        assert documents == split_documents(corpus, split)
