"""Outputs that would be read as inputs, and those that cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rayner.data.schema import Document
from rayner.data.writers import write_jsonl
from rayner.errors import InputError, RecipeError
from rayner.files.working import write_lines
from rayner.runtime.corpora.context_pairs import Generated, contexts
from rayner.runtime.corpora.convert import convert, label
from rayner.runtime.corpora.rank import rank
from rayner.runtime.corpora.resolve import resolve_texts
from rayner.runtime.linking import indexes
from rayner.runtime.run_folder import check_apart, comparable
from rayner.runtime.training.train import train
from tests.runtime.training.toy_task import toy_recipe


@pytest.mark.parametrize(
    ("given", "out", "what"),
    [
        ("s3://tests/data", "s3://tests/data", "holds the input s3://tests/data"),
        ("s3://tests/data/a.jsonl", "s3://tests/data/", "holds the input s3://tests/data/a.jsonl"),
        ("s3://tests/data", "s3://tests/data/out", "lies in the input s3://tests/data"),
        ("gs://tests/data", "gcs://tests/data/out", "lies in the input gs://tests/data"),
        ("data", "data/out", "lies in the input data"),
        ("linked", "data/../data", "holds the input linked"),
        ("s3://tests/data", "s3://tests/data2", None),
        ("s3://tests/data", "gs://tests/data", None),
        ("s3://tests/data", "tests/data", None),
        ("data/a.jsonl", "data/a", None),
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_an_output_lies_apart_from_its_inputs(
    given: str, out: str, what: str | None, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "linked").symlink_to("data")
    if what is None:
        check_apart([kind(given)], kind(out))
        return
    with pytest.raises(InputError, match=what):
        check_apart([kind("elsewhere"), kind(given)], kind(out))


COMMANDS: dict[str, Callable[[Path, Path], Any]] = {
    "contexts": lambda given, out: contexts([given], out, Generated()),
    "convert": lambda given, out: convert([given], out),
    "label": lambda given, out: label(given, given / "names.tsv", out),
    "rank": lambda given, out: rank([given], given / "best", out),
    "resolve": lambda given, out: resolve_texts([given], out, ["rules"]),
}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_on_corpora_refuses_it_before_anything_is_fetched(command: str) -> None:
    # No storage is there to answer.
    given = Path("s3://nowhere-at-all/data")
    for out, what in ((given, "holds the input"), (given / "out", "lies in the input")):
        with pytest.raises(InputError, match=what):
            COMMANDS[command](given, out)


def test_a_conversion_is_not_put_where_its_own_second_run_would_read_it(tmp_path: Path) -> None:
    write_jsonl([Document("a", "Ada slept.")], tmp_path / "data/a.jsonl")
    with pytest.raises(InputError, match="lies in the input"):
        convert([tmp_path / "data"], tmp_path / "data/out")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["a.jsonl"]


def test_a_ranking_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl([Document("a", "Ada slept.")], tmp_path / "in.jsonl")
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(InputError, match="is a file"):
            rank([tmp_path / "in.jsonl"], tmp_path / "no checkpoint", out)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="cannot be written"):
        rank([tmp_path / "in.jsonl"], tmp_path / "no checkpoint", tmp_path / "new/out")


def test_the_spellings_of_a_place_are_told_to_be_one(tmp_path: Path) -> None:
    one = "s3://tests/my base.jsonl"
    for other in (Path(one), Path(one).absolute(), one.replace(" ", "%20"), "s3://tests/my%20b%61se.jsonl"):
        assert comparable(other) == comparable(one)
    assert comparable(one) != comparable("s3://tests/my+base.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert comparable(tmp_path / "x" / ".." / "link") == comparable(tmp_path / "file") == tmp_path / "file"


def test_a_place_at_a_uri_is_opened_before_any_work() -> None:
    what = "memory: has no conditional writes"
    for work in (rank, lambda paths, best, out: indexes.build(best, paths, out)):
        with pytest.raises(InputError, match=what) as raised:
            work([Path("in.jsonl")], Path("no checkpoint"), Path("memory://tests/out"))
        assert raised.value.where == "memory://tests/out"


@pytest.mark.parametrize("name", ["recipe.yaml", "log.jsonl", "best/mine.txt", "last/mine.txt"])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_training_writes_over_no_file_of_others(tmp_path: Path, name: str, fresh: bool) -> None:
    recipe = toy_recipe()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    # A second time, too: the first one leaves no mark.
    for _ in range(2):
        with pytest.raises(InputError, match=rf"would replace: {name.split('/')[0]}; name another folder"):
            train(recipe, tmp_path, fresh=fresh, workers=0)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [Path(name).name]


@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_that_was_copied_without_its_hidden_files_goes_on(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "recipe.yaml").write_text("task: toy\n")
    (tmp_path / "log.jsonl").write_text("{}\n")
    # Nothing is wrong with the folder; there is no corpus.
    with pytest.raises(RecipeError, match="toy does not exist"):
        train(toy_recipe(), tmp_path, fresh=fresh, workers=0)


def test_the_lock_of_another_command_gives_no_folder_to_a_training(tmp_path: Path) -> None:
    for name in (".lock", "log.jsonl"):
        (tmp_path / name).touch()
    (tmp_path / "best").mkdir()
    (tmp_path / "result.json").write_text("mine")
    with pytest.raises(InputError, match=r"would replace: result\.json; name another folder"):
        train(toy_recipe(), tmp_path, workers=0)


def test_an_error_of_reading_is_not_told_of_the_output(tmp_path: Path) -> None:
    def lines() -> Iterator[str]:
        yield "1"
        raise OSError(errno.EIO, "Input/output error", "mentions.tsv")

    with pytest.raises(OSError, match=r"mentions\.tsv"):
        write_lines(tmp_path / "answers.jsonl", lines())
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"--out .*cannot be written"):
        write_lines(tmp_path / "file/answers.jsonl", ["1"])
