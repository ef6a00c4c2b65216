"""Outputs that would be read as inputs, and those that cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayner.data.schema import Document
from rayner.data.writers import write_jsonl
from rayner.errors import InputError
from rayner.runtime.corpora.context_pairs import Generated, contexts
from rayner.runtime.corpora.convert import convert, label
from rayner.runtime.corpora.rank import rank
from rayner.runtime.corpora.resolve import resolve_texts
from rayner.runtime.run_folder import check_apart


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
