from __future__ import annotations

from pathlib import Path

import pytest

from rayner.config import DocumentRecipe
from rayner.tasks.registry import load_recipe

RECIPES = sorted((Path(__file__).parents[2] / "jobs" / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_a_shipped_recipe_is_valid_and_named_after_its_task(path: Path) -> None:
    recipe = load_recipe(path)
    assert path.stem.startswith(recipe.task)
    if isinstance(recipe, DocumentRecipe):
        assert all(t.guidelines for t in recipe.types)
