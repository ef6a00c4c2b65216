"""What the quick start makes of a corpus: NIL is told, fine types come from entities. What it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rayner.data.mention_readers import read_mention_strings
from rayner.data.readers import read_corpus
from rayner.errors import RecipeError
from rayner.runtime.quickstart.quickstart import quickstart
from rayner.runtime.quickstart.quickstart_files import (
    write_mentions,
    write_texts,
    write_typed,
    write_typed_names,
)

TEXT = "Postgers 9 beside Zoom."


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    mentions = [
        {"start": 0, "end": 8, "type": "Software", "entity_id": "pg"},
        {"start": 9, "end": 10, "type": "Version"},
        {"start": 18, "end": 22, "type": "Software"},
    ]
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"document_id": "one", "text": TEXT, "mentions": mentions}), encoding="utf-8")
    return path


def test_a_mention_without_an_entity_is_nil(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "mentions.jsonl"
    write_mentions(corpus, ["Software"], path)
    found = read_mention_strings(path).mentions
    assert [(m.text, m.entity_ids) for m in found] == [("Postgers", ("pg",)), ("Zoom", ())]


@pytest.mark.parametrize(("plain", "versions"), [((), []), (("Version",), ["/version"])])
def test_a_mention_has_the_fine_type_of_its_entity(
    corpus: Path, tmp_path: Path, plain: tuple[str, ...], versions: list[str]
) -> None:
    path = tmp_path / "typed.jsonl"
    write_typed(corpus, {"pg": "/software/database"}, path, plain)
    (document,) = read_corpus(path).documents
    assert [name for m in document.mentions for name, _ in m.types] == ["/software/database", *versions]


def test_every_name_of_an_entity_is_a_mention(tmp_path: Path) -> None:
    base = tmp_path / "base.jsonl"
    row = {"entity_id": "pg", "name": "PostgreSQL", "aliases": ["Postgres", "PG"], "type": "Software"}
    base.write_text(json.dumps(row), encoding="utf-8")
    path = tmp_path / "names.jsonl"
    write_typed_names(base, {"pg": "/software/database"}, path)
    (document,) = read_corpus(path).documents
    assert [document.text[m.start : m.end] for m in document.mentions] == ["PostgreSQL", "Postgres", "PG"]
    assert all(m.types == (("/software/database", 1.0),) for m in document.mentions)


def test_texts_are_files_without_annotations(corpus: Path, tmp_path: Path) -> None:
    (path,) = write_texts(corpus, tmp_path / "texts").iterdir()
    assert (path.name, path.read_text("utf-8")) == ("one.txt", TEXT)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "decoding.overlap=flat",
            "unknown key, in the recipe of the typer; set keys that all three recipes have",
        ),
        ("training.epocs=1", "unknown key, in the recipe of the recognizer; did you mean 'epochs'?"),
    ],
)
def test_a_key_that_one_of_its_recipes_lacks_is_refused_with_its_name(
    tmp_path: Path, override: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=re.escape(f"--set {override}: {message}")):
        quickstart(tmp_path / "run", [override])
    assert not (tmp_path / "run").exists()
