"""The table of entities that a model takes for each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rayner.errors import RecipeError
from rayner.losses.distances import Distance, distances
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.neighbours import hard_neighbours
from tests.tasks.standardizer.small_names import small_recipe


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "squared_euclidean"])
@given(rows=st.integers(2, 12), count=st.integers(1, 14), seed=st.integers(0, 50))
def test_the_nearest_others_are_found(distance: Distance, rows: int, count: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    apart = distances(torch.from_numpy(vectors), torch.from_numpy(vectors), distance)
    expected = apart.fill_diagonal_(torch.inf).sort(1).indices[:, : min(count, rows - 1)]
    found = hard_neighbours(vectors, distance, count)
    assert found.dtype == torch.int32
    torch.testing.assert_close(apart.gather(1, found.long()), apart.gather(1, expected), rtol=0, atol=1e-5)


def test_entities_of_equal_names_are_no_neighbours_of_themselves() -> None:
    found = hard_neighbours(np.ones((9, 4), np.float32), "cosine", 2)
    assert found.shape == (9, 2)
    assert (found != torch.arange(9)[:, None]).all()


def test_a_marginal_likelihood_has_neighbours_for_candidates(tmp_path: Path) -> None:
    values = small_recipe(tmp_path, loss={"mining": "marginal_likelihood", "candidates": 6})
    with pytest.raises(RecipeError, match=r"marginal_likelihood needs groups\.neighbours"):
        parse_recipe(values, "recipe")
    values["groups"]["neighbours"] = 3
    values["training"]["epochs"] = 4
    metrics = train(parse_recipe(values, "recipe"), tmp_path / "run")["metrics"]
    assert metrics["top1"] >= 0.7


def test_the_table_is_part_of_what_is_stored(tmp_path: Path) -> None:
    values = small_recipe(tmp_path, groups={"group_size": 2, "groups_per_step": 2, "neighbours": 3})
    train(parse_recipe(values, "recipe"), tmp_path / "run")
    table = load_file(tmp_path / "run/last/state/epoch.safetensors")["neighbours"]
    assert table.shape[1] == min(3, table.shape[0] - 1)
    assert (table != torch.arange(len(table))[:, None]).all()
