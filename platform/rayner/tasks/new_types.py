"""Types that are looked for without having been learned, and what their spans are held against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from rayner.config import BaseRecipe, RecognizerRecipe

Threshold = Literal["dynamic", "mean"]
"""`dynamic`: the threshold of the type's own vector in each window, as for learned types. `mean`: of the
thresholds that the other types have, where these are learned or tuned, one a type."""


def new_types(recipe: BaseRecipe, names: Iterable[str]) -> dict[str, Threshold]:
    """Those of the types that the recipe's model did not learn, each with how its threshold is had."""
    if not isinstance(recipe, RecognizerRecipe):
        return {}
    learned = {t.name for t in recipe.types}
    threshold: Threshold = "dynamic" if recipe.model.threshold == "dynamic" else "mean"
    return {name: threshold for name in names if name not in learned}
