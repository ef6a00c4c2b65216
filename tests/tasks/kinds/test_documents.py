"""Documents as they are evaluated: by what the checkpoint's recipe says of the same files."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import obstore
import pytest

from rayner.data.schema import Document
from rayner.tasks.kinds.documents import Documents, documents_of
from rayner.tasks.stage_chain import Chain
from tests.object_storage import BUCKET, Storage
from tests.tasks.small import recognizer


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "corpora"
    (folder / "others").mkdir(parents=True)
    for name in ("news", "songs", "others/songs"):
        row = {"document_id": name, "text": f"Ada sang of {name}"}
        (folder / f"{name}.jsonl").write_text(json.dumps(row) + "\n")
    monkeypatch.chdir(folder)
    return folder


def known(documents: list[Document]) -> dict[str, tuple[str, ...] | None]:
    return {document.document_id: document.annotated_types for document in documents}


@pytest.mark.parametrize("written", ["songs.jsonl", "$CORPORA/songs.jsonl", "others/../songs.jsonl"])
def test_what_a_file_was_annotated_for_holds_when_it_is_evaluated(
    corpora: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("CORPORA", str(corpora))
    corpus = {"train": ["news.jsonl"], "dev": [written], "annotated": {written: ["PER"]}}
    recipe = recognizer(corpus=corpus).recipe
    for path in (Path("songs.jsonl"), corpora / "songs.jsonl"):
        assert known(list(documents_of([path], "auto", recipe))) == {"songs": ("PER",)}
    several = [corpora / "songs.jsonl", corpora / "others" / "songs.jsonl"]
    assert known(list(documents_of(several, "auto", recipe))) == {"songs": ("PER",), "others/songs": None}
    whole = {"news": None, "songs": ("PER",), "others/songs": None}
    assert known(list(documents_of([corpora], "auto", recipe))) == whole


def test_what_a_folder_was_annotated_for_holds_for_its_files(corpora: Path) -> None:
    corpus = {"train": ["news.jsonl", "others"], "annotated": {"others": ["LOC"]}}
    recipe = recognizer(corpus=corpus).recipe
    assert known(list(documents_of([Path("others", "songs.jsonl")], "auto", recipe))) == {
        "others/songs": ("LOC",)
    }
    os.remove("others/songs.jsonl")
    os.rmdir("others")
    assert known(list(documents_of([corpora], "auto", recipe))) == {"news": None, "songs": None}


def test_what_a_file_was_annotated_for_holds_in_a_folder_at_a_uri(corpora: Path, storage: Storage) -> None:
    for path in corpora.rglob("*.jsonl"):
        obstore.put(storage.store(), f"annotated_for_types/{path.relative_to(corpora).as_posix()}", path)
    home = f"s3://{BUCKET}/annotated_for_types"
    annotated = {f"{home}/songs.jsonl": ["PER"], f"{home}/others": ["LOC"]}
    recipe = recognizer(corpus={"train": [f"{home}/news.jsonl", *annotated], "annotated": annotated}).recipe
    whole = {"news": None, "songs": ("PER",), "others/songs": ("LOC",)}
    for written in (home, f"{home}/"):
        assert known(list(documents_of([Path(written)], "auto", recipe))) == whole


def test_types_are_called_others_only_where_the_stages_say_which_they_find(
    corpora: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    row = {"text": "Ada sang", "mentions": [{"start": 0, "end": 3, "type": "PER"}]}
    Path("marked.jsonl").write_text(json.dumps(row) + "\n")
    recipe = recognizer(corpus={"train": ["news.jsonl"]}).recipe
    for names, told in (((), False), (("PER",), False), (("LOC",), True)):
        stage: Any = SimpleNamespace(names=names) if names else object()
        caplog.clear()
        Documents().read([Path("marked.jsonl")], "auto", recipe, cast(Any, Chain((stage, stage))))
        assert ("of a type that is looked for" in caplog.text) == told
