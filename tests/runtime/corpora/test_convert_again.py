"""A conversion into the folder of an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.data.readers import find_units, read_corpus
from rayner.runtime.corpora.convert import convert, process
from rayner.runtime.corpora.kept_parts import unchanged


def test_a_second_conversion_that_is_stopped_is_not_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"document_id": "{name}", "text": "{name}"}}\n')

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    convert([tmp_path / "a.jsonl"], tmp_path / "out", workers=0)
    with monkeypatch.context() as cut:
        cut.setattr("rayner.runtime.corpora.convert._counts", stopped)
        with pytest.raises(KeyboardInterrupt):
            convert([tmp_path / "b.jsonl"], tmp_path / "out", workers=0)
    convert([tmp_path / "a.jsonl"], tmp_path / "out", workers=0)
    assert [document.document_id for document in read_corpus(tmp_path / "out").documents] == ["a"]


def converted(inputs: Path, documents: int, out: Path, to: str = "parquet") -> int:
    inputs.mkdir(exist_ok=True)
    for number in range(len(list(inputs.iterdir())), documents):
        (inputs / f"{number}.jsonl").write_text(f'{{"document_id": "d{number}", "text": "Ada ran."}}\n')
    units = find_units([inputs])
    return process(units, unchanged, "convert", out, 0, False, part_bytes=1, to=to)[0]["documents"]


@pytest.mark.parametrize(("to", "lost"), [("parquet", "documents-00001.parquet"), ("brat", "d1.ann")])
def test_a_file_of_a_corpus_that_is_gone_is_made_again(tmp_path: Path, to: str, lost: str) -> None:
    out = tmp_path / "out"
    assert converted(tmp_path / "in", 3, out, to) == 3
    before = {path.name for path in out.iterdir()}
    (out / lost).unlink()
    (out / "README.md").write_text("mine")
    assert converted(tmp_path / "in", 3, out, to) == 3
    # Who works on files of brat may have taken one out.
    again = before if to == "parquet" else before - {lost}
    assert {path.name for path in out.iterdir()} == again | {"README.md"}


def test_files_of_others_are_kept(tmp_path: Path) -> None:
    out, mine = tmp_path / "out", {"x.ann", "x.txt", "documents-README.md"}
    converted(tmp_path / "in", 2, out)
    for name in mine:
        (out / name).write_text("mine")
    assert converted(tmp_path / "in", 3, out) == 3
    names = {path.name for path in out.iterdir()}
    assert mine <= names
    assert len([name for name in names if name.endswith(".parquet")]) == 3
