"""Weights in several files: read together, and refused by file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rayner.errors import CheckpointError
from rayner.tasks import checkpoint_files
from rayner.tasks.checkpoint_files import Place, load_weights, read_known_recipe, save_weights
from rayner.tasks.registry import recipes

PLACES = {"one.": Place("own"), "two.": Place("other", "linear.")}


def model() -> nn.Module:
    return nn.ModuleDict({"one": nn.Linear(2, 3), "two": nn.Linear(3, 2), "head": nn.Linear(2, 1)})


def test_each_part_lies_in_its_own_file_under_its_own_names(tmp_path: Path) -> None:
    saved, loaded = model(), model()
    save_weights(saved, tmp_path, PLACES)
    assert load_file(tmp_path / "own/model.safetensors").keys() == {"weight", "bias"}
    assert load_file(tmp_path / "other/model.safetensors").keys() == {"linear.weight", "linear.bias"}
    assert load_file(tmp_path / "model.safetensors").keys() == {"head.weight", "head.bias"}
    load_weights(loaded, tmp_path, PLACES)
    weights = loaded.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in saved.state_dict().items())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of recipes that are parsed."""
    texts: list[str] = []
    yaml_of = yaml.safe_load
    monkeypatch.setattr(checkpoint_files.yaml, "safe_load", lambda text: texts.append(text) or yaml_of(text))
    return texts


def test_a_recipe_is_read_again_only_where_it_changed(tmp_path: Path, read: list[str]) -> None:
    texts = [f"task: tagger\ncorpus: {{train: [{tmp_path}/{c}]}}\ntypes: [{{name: PER}}]\n" for c in "ab"]
    for text in (texts[0], texts[0], texts[1]):
        (tmp_path / "recipe.yaml").write_text(text)
        found: Any = read_known_recipe(tmp_path, recipes())
        assert found.corpus.train[0] in text
    assert read == texts


def test_recipes_of_many_stages_are_read_once(tmp_path: Path, read: list[str]) -> None:
    folders = [tmp_path / str(stage) for stage in range(8)]
    for folder in folders:
        folder.mkdir()
        (folder / "recipe.yaml").write_text(
            f"task: tagger\ncorpus: {{train: [{folder}]}}\ntypes: [{{name: PER}}]\n"
        )
    for folder in folders * 2:
        read_known_recipe(folder, recipes())
    assert len(read) == len(folders)


def changed(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(path)
    change(weights)
    save_file(weights, path)


@pytest.mark.parametrize("file", ["model.safetensors", "own/model.safetensors", "other/model.safetensors"])
def test_what_is_wrong_is_said_by_file(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    save_weights(model(), tmp_path, PLACES)
    changed(path, lambda weights: weights.pop(next(name for name in weights if name.endswith("bias"))))
    with pytest.raises(CheckpointError, match=r"does not fit the recipe beside it \(\w+\.bias\)") as caught:
        load_weights(model(), tmp_path, PLACES)
    assert caught.value.where == str(path)
    save_weights(model(), tmp_path, PLACES)
    changed(path, lambda weights: weights.update(surplus=torch.ones(1)))
    with pytest.raises(CheckpointError, match="surplus") as caught:
        load_weights(model(), tmp_path, PLACES)
    assert caught.value.where == str(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="cannot be read") as caught:
        load_weights(model(), tmp_path, PLACES)
    assert caught.value.where == str(path)
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing") as caught:
        load_weights(model(), tmp_path, PLACES)
    assert caught.value.where == str(path)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("file", ["model.safetensors", "own/model.safetensors"])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, file: str, value: float) -> None:
    save_weights(model(), tmp_path, PLACES)
    changed(tmp_path / file, lambda weights: next(iter(weights.values())).view(-1)[:1].fill_(value))
    with pytest.raises(CheckpointError, match=r"is NaN or infinite in 1 of \d") as caught:
        load_weights(model(), tmp_path, PLACES)
    assert caught.value.where == str(tmp_path / file)


def test_a_threshold_that_nothing_is_held_against_is_infinite(tmp_path: Path) -> None:
    saved = nn.Module()
    saved.register_buffer("thresholds", torch.tensor([0.5, -torch.inf]))
    save_weights(saved, tmp_path, {})
    load_weights(saved, tmp_path, {})
    changed(tmp_path / "model.safetensors", lambda weights: weights["thresholds"].fill_(torch.nan))
    with pytest.raises(CheckpointError, match="thresholds is NaN or infinite in 2"):
        load_weights(saved, tmp_path, {})
