"""The table of entities that a model takes for each other."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from rayner.errors import RecipeError
from rayner.losses.distances import Distance, distances
from rayner.retrieval import exact
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from rayner.tasks.standardizer.neighbours import hard_neighbours
from tests import other_device
from tests.tasks.standardizer.small_names import small_recipe

CPU = torch.device("cpu")
VECTORS = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)


def of_device(distance: Distance) -> tuple[set[str], np.ndarray]:
    """Where the product is done, and what comes of it."""
    other_device.register()
    devices, nearest = set[str](), exact.nearest

    def noted(*given: torch.Tensor, **rest: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        devices.update(tensor.device.type for tensor in given if isinstance(tensor, torch.Tensor))
        return nearest(*given, **rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "nearest", noted)
        return devices, hard_neighbours(VECTORS, distance, 5, torch.device(other_device.NAME, 0)).numpy()


@pytest.mark.parametrize("distance", ["cosine", "squared_euclidean"])
def test_neighbours_are_looked_for_where_the_model_is(distance: Distance) -> None:
    # In a process of its own: torch keeps a device that it was told of for good.
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
        devices, found = pool.submit(of_device, distance).result()
    assert devices == {other_device.NAME}
    np.testing.assert_array_equal(found, hard_neighbours(VECTORS, distance, 5, CPU).numpy())


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "squared_euclidean"])
@given(rows=st.integers(2, 12), count=st.integers(1, 14), seed=st.integers(0, 50))
def test_the_nearest_others_are_found(distance: Distance, rows: int, count: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    apart = distances(torch.from_numpy(vectors), torch.from_numpy(vectors), distance)
    expected = apart.fill_diagonal_(torch.inf).sort(1).indices[:, : min(count, rows - 1)]
    found = hard_neighbours(vectors, distance, count, CPU)
    assert found.dtype == torch.int32
    torch.testing.assert_close(apart.gather(1, found.long()), apart.gather(1, expected), rtol=0, atol=1e-5)


def test_entities_of_equal_names_are_no_neighbours_of_themselves() -> None:
    found = hard_neighbours(np.ones((9, 4), np.float32), "cosine", 2, CPU)
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
