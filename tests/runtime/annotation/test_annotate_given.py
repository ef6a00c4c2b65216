"""A checkpoint that answers about mentions which documents bring, and documents that bring none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rayner.data.schema import Entity
from rayner.runtime.annotation.annotate import annotate
from tests.serving.checkpoints import standardizer_folder, typer_folder


def test_texts_without_mentions_in_them_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, said = typer_folder(tmp_path / "typer"), "no document brings a mention"
    given = {"text": "Ada slept.", "mentions": [{"start": 0, "end": 3, "type": "PER"}]}
    for name, row in (("bare", {"text": "Ada slept."}), ("marked", given)):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row))
        caplog.clear()
        counts = annotate(folder, [tmp_path / f"{name}.jsonl"], tmp_path / name, workers=0)
        assert (counts["mentions"], said in caplog.text) == ((0, True) if name == "bare" else (1, False))


def test_a_type_to_link_that_no_mention_has_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    standardizer_folder(tmp_path / "people", [Entity("ada", "Ada"), Entity("bo", "Bo")])
    ada = {"text": "Ada slept.", "mentions": [{"start": 0, "end": 3, "type": "PER", "entity_id": "other"}]}
    (tmp_path / "given.jsonl").write_text(json.dumps(ada))
    for name, linked in (("PRE", 0), ("PER", 1)):
        stage = {"checkpoint": "people/best", "index": "people/index", "types": [name]}
        (file := tmp_path / f"{name}.yaml").write_text(json.dumps({"stages": [stage]}))
        caplog.clear()
        counts = annotate(file, [tmp_path / "given.jsonl"], tmp_path / name, workers=0)
        assert counts["linked"] == linked
        told = "no mention is of the type 'PRE', which the pipeline links; those there are: 'PER'"
        assert (told in caplog.text) == (name == "PRE")


def test_fine_types_are_counted_without_those_of_duplicates(tmp_path: Path) -> None:
    folder, given, out = typer_folder(tmp_path / "typer"), tmp_path / "given", tmp_path / "out"
    given.mkdir()
    ada = {"document_id": "a", "text": "Ada slept.", "mentions": [{"start": 0, "end": 3}]}
    bo = {"document_id": "b", "text": "Bo met Ada.", "mentions": [{"start": 7, "end": 10}]}
    for name, rows in (("a", [ada]), ("b", [ada, bo])):
        (given / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        counts = annotate(folder, [given], out, workers=0)
        found = [mention for row in pq.read_table(out).to_pylist() for mention in row["mentions"]]
        assert counts["types"] == {"mention": len(rows)}
        assert counts["fine_types"] == Counter(fine["name"] for one in found for fine in one["types"]) != {}
    # As an output of before they were counted.
    (manifest := out / "_annotation.json").write_text(
        json.dumps({k: v for k, v in json.loads(manifest.read_text()).items() if k != "fine_types"})
    )
    (given / "c.jsonl").write_text(json.dumps(bo | {"document_id": "c"}))
    counts = annotate(folder, [given], out, workers=0)
    assert (counts["types"], "fine_types" in counts) == ({"mention": 3}, False)
