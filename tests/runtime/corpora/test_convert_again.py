"""A conversion into the folder of an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.data.readers import read_corpus
from rayner.runtime.corpora.convert import convert


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
