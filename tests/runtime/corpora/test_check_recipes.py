"""A corpus is checked by the recipe of any task that learns from documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.errors import RecipeError
from rayner.runtime.corpora.check import check
from rayner.tasks.registry import parse_recipe
from tests.tasks.small_recipes import SMALL


@pytest.mark.parametrize("task", ["recognizer", "gaussian", "chains", "coreference", "typer", "toy"])
def test_what_learns_from_documents_checks_them(tmp_path: Path, task: str) -> None:
    found = check([], parse_recipe(SMALL[task](tmp_path), "test"))
    assert found["documents"] > 0
    assert found["mentions"] > 0


@pytest.mark.parametrize("task", ["standardizer", "ranker"])
def test_what_learns_from_none_is_refused(tmp_path: Path, task: str) -> None:
    with pytest.raises(RecipeError, match="learns from no corpus of documents"):
        check([], parse_recipe(SMALL[task](tmp_path), "test"))
