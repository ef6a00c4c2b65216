"""A standardizer's checkpoint as a model of sentence-transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rayner.config import StandardizerRecipe
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.task import LONGEST, StandardizerTask
from tests.tasks.standardizer.small_names import small_recipe

TEXTS = ["Apache Web Server", "MS IIS", "Ελληνικά ③", "a " * LONGEST, "é"]


@pytest.mark.parametrize(
    ("model", "distance", "similarity"),
    [
        ({}, "cosine", "cosine"),
        ({"pooling": "cls", "normalize": False}, "euclidean", "euclidean"),
        ({"pooling": "max", "projection_size": 5}, "squared_euclidean", "euclidean"),
        ({"projection_size": 7, "normalize": False}, "cosine", "cosine"),
    ],
)
def test_sentence_transformers_gives_the_same_vectors(
    tmp_path: Path, model: dict[str, Any], distance: str, similarity: str
) -> None:
    library = pytest.importorskip("sentence_transformers")
    values = small_recipe(tmp_path, model=model, loss={"distance": distance})
    recipe = parse_recipe(values, "recipe")
    assert isinstance(recipe, StandardizerRecipe)
    task = StandardizerTask(recipe)
    saved, folder = task.build(), tmp_path / "best"
    folder.mkdir()
    task.save(saved, folder)
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    ours = task.encode(saved, TEXTS)
    np.testing.assert_allclose(theirs.encode(TEXTS), ours, rtol=0, atol=1e-5)
    assert ours.std() > 1e-3
    assert theirs.similarity_fn_name == similarity
    assert theirs.max_seq_length == LONGEST + 2
    loaded = StandardizerTask(recipe).load(folder).state_dict()
    assert all(torch.equal(loaded[name], value) for name, value in saved.state_dict().items())
