"""A corpus is checked by the recipe of any task that learns from documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rayner.data.fine_types import as_types
from rayner.data.schema import UNTYPED, Document, Mention, document_to_row
from rayner.errors import RecipeError
from rayner.runtime.corpora.check import check
from rayner.tasks.kinds.documents import Documents
from rayner.tasks.registry import parse_recipe
from tests.tasks.small_recipes import SMALL
from tests.toy import TOY


@pytest.mark.parametrize("task", ["recognizer", "gaussian", "chains", "coreference", "typer", "toy"])
def test_what_learns_from_documents_checks_them(tmp_path: Path, task: str) -> None:
    found = check([], parse_recipe(SMALL[task](tmp_path), "test"))
    assert found["documents"] > 0
    assert found["mentions"] > 0


@pytest.mark.parametrize("task", ["standardizer", "ranker"])
def test_what_learns_from_none_is_refused(tmp_path: Path, task: str) -> None:
    with pytest.raises(RecipeError, match="learns from no corpus of documents"):
        check([], parse_recipe(SMALL[task](tmp_path), "test"))


def test_the_types_of_a_typer_are_those_that_it_learns(tmp_path: Path) -> None:
    mentions = [Mention(0, 3, UNTYPED, types=as_types(["/person", "/person/artist"])), Mention(8, 13, "LOC")]
    path = tmp_path / "fine.jsonl"
    path.write_text(json.dumps(document_to_row(Document("d", "Ada saw Turin.", tuple(mentions)))) + "\n")
    recipe = parse_recipe({**SMALL["typer"](tmp_path), "corpus": {"train": [str(path)]}}, "test")
    found = check([], recipe)
    assert (found["mentions"], found["types"]) == (2, {"/person": 1, "/person/artist": 1, "LOC": 1})
    assert check([path])["types"] == {UNTYPED: 1, "LOC": 1}


@pytest.mark.parametrize("dev", [{"dev": []}, {"dev": [], "dev_fraction": 0.6}])
def test_a_split_that_leaves_too_few_stories_to_learn_from_is_told(
    tmp_path: Path, dev: dict[str, Any]
) -> None:
    stories = [
        Document(
            f"d{n}", f"Ada saw Ada {n}.", (Mention(0, 3, "PER", chain="1"), Mention(8, 11, "PER", chain="1"))
        )
        for n in range(2)
    ]
    path = tmp_path / "stories.jsonl"
    path.write_text("".join(json.dumps(document_to_row(story)) + "\n" for story in stories))
    values = {**SMALL["chains"](tmp_path), "corpus": {"train": [str(path)], **dev}}
    found = [one for one in check([], parse_recipe(values, "test"))["findings"] if one["severity"] == "error"]
    if "dev_fraction" not in dev:
        assert found == []
        return
    (told,) = found
    assert (told["kind"], told["split"]) == ("nothing to learn", "train")
    assert "1 of its stories have a chain of two mentions" in told["what"]


class OwnDocuments(Documents):
    name = "own"


OWN = replace(TOY, kind=OwnDocuments())


def test_types_are_checked_where_a_kind_from_outside_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(document_to_row(Document("d", "Ada ran.", (Mention(0, 3, "NEW"),)))) + "\n")
    recipe = parse_recipe({**SMALL["toy"](tmp_path), "corpus": {"train": [str(path)]}}, "test")
    told = check([], recipe)["kinds"]
    monkeypatch.setenv("RAYNER_TASKS", f"{__name__}:OWN")
    assert check([], recipe)["kinds"] == told
    assert "type not in the recipe" in told
