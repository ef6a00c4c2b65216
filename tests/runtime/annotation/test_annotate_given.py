"""A checkpoint that answers about mentions which documents bring, and documents that bring none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rayner.runtime.annotation.annotate import annotate
from tests.serving.checkpoints import typer_folder


def test_texts_without_mentions_in_them_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, said = typer_folder(tmp_path / "typer"), "no document brings a mention"
    given = {"text": "Ada slept.", "mentions": [{"start": 0, "end": 3, "type": "PER"}]}
    for name, row in (("bare", {"text": "Ada slept."}), ("marked", given)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
        caplog.clear()
        counts = annotate(folder, [tmp_path / f"{name}.jsonl"], tmp_path / name, workers=0)
        assert (counts["mentions"], said in caplog.text) == ((0, True) if name == "bare" else (1, False))
