"""Folders at URIs, and what is in folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.files.publishing import Publication
from tests.object_storage import BUCKET

FILES = {"a.txt": "one", "last/model.bin": "x" * 100, "last/leer zeichen/ü #1%20.txt": "two", "empty": ""}


def another_machine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("RAYNER_LOCAL", str(folder))


def uri(name: str) -> str:
    return f"s3://{BUCKET}/{name}"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def read(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


def published(name: str, files: dict[str, str] | None = None) -> Publication:
    publication = Publication(uri(name))
    publication.open()
    write(publication.folder, files if files is not None else FILES)
    publication.push()
    return publication
