"""Corpora at URIs, converted on nodes that have fetched nothing yet."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import FileUnit, find_units
from rayner.errors import FileError, InputError, RaynerError, StorageError
from rayner.files import tries
from rayner.files.places import place_of
from rayner.runtime import faults
from rayner.runtime.corpora import kept_parts
from rayner.runtime.corpora.convert import convert
from tests.object_storage import BUCKET, Storage

CORPUS = f"s3://{BUCKET}/conversion/in"


@pytest.fixture
def on_another_node(storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileUnit:
    """A unit that the driver has found, where its file was not fetched."""
    place_of(f"{CORPUS}/a.jsonl").write(b'{"document_id": "a", "text": "Ann ran."}\n')
    (unit,) = find_units(CORPUS)
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    shutil.rmtree(tmp_path / "machine")
    monkeypatch.setattr(faults, "PAUSE", 0.0)
    return unit


def test_another_node_fetches_what_it_reads(on_another_node: FileUnit, tmp_path: Path) -> None:
    (document,) = kept_parts.read_patiently(on_another_node).documents
    assert document.text == "Ann ran."
    assert list((tmp_path / "other").rglob("a.jsonl"))


def test_storage_that_fails_is_no_reason_to_reject(
    on_another_node: FileUnit, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "TRIES", 1)
    monkeypatch.setattr(tries, "TRIES", 1)
    failed = storage.fails("503", times=10**9, part="conversion")
    with pytest.raises(StorageError, match=f"{CORPUS}/a.jsonl: cannot be read"):
        kept_parts.read_patiently(on_another_node)
    assert failed
    storage.works()
    assert kept_parts.read_patiently(on_another_node).documents


def test_access_that_is_denied_is_no_reason_to_reject(on_another_node: FileUnit, storage: Storage) -> None:
    storage.fails("403", times=10**9, part="conversion")
    with pytest.raises(InputError, match=f"{CORPUS}/a.jsonl: access is denied"):
        kept_parts.read_patiently(on_another_node)


def test_a_file_that_is_gone_when_it_is_read_is_no_reason_to_reject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "PAUSE", 0.0)

    def gone(unit: FileUnit) -> Any:
        raise FileError(unit.paths[0], "No such file or directory", "name a file that can be read")

    monkeypatch.setattr(kept_parts, "read_unmerged", gone)
    (tmp_path / "a.jsonl").write_text('{"text": "Ann ran."}\n')
    with pytest.raises(RaynerError, match=r"a\.jsonl: No such file"):
        convert([tmp_path / "a.jsonl"], tmp_path / "out", workers=0)
