"""A checkpoint whose recipe is another than the one that it was trained by."""

from __future__ import annotations

import json
from pathlib import Path

from rayner.config import BaseRecipe
from rayner.config.recipe_files import dump_recipe
from rayner.files.hashes import sha256_of
from rayner.tasks.checkpoint_files import MANIFEST, RECIPE


def replace_recipe(folder: Path, recipe: BaseRecipe) -> None:
    """Give a checkpoint another recipe of the same task and model."""
    (folder / RECIPE).write_text(dump_recipe(recipe), encoding="utf-8")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"][RECIPE] = sha256_of(folder / RECIPE)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
