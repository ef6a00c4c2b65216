"""A run's folder in the place of its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import rayner
from rayner.errors import CheckpointError, InputError
from rayner.files.run_checkpoints import SWEEP, WINNER, checkpoint_of
from rayner.models.sources import locate
from rayner.runtime.linking import indexes
from rayner.tasks.checkpoint import load_checkpoint, version_of
from rayner.tasks.stages import read_pipeline
from tests.serving.checkpoints import PLACES, recognizer_folder, standardizer_folder, write_entities


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, as its training leaves it."""
    folder = tmp_path_factory.mktemp("run")
    recognizer_folder(folder / "best", steps=1)
    (folder / "recipe.yaml").write_bytes((folder / "best" / "recipe.yaml").read_bytes())
    (folder / "log.jsonl").touch()
    return folder


def written(folder: Path, *names: str) -> Path:
    """A folder with empty files."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def test_a_run_is_its_best_wherever_a_checkpoint_is_named(run: Path, tmp_path: Path) -> None:
    best = run / "best"
    assert version_of(run) == version_of(best)
    assert load_checkpoint(run, "cpu").folder == best
    assert read_pipeline(run) == read_pipeline(best)
    assert locate(str(run)).folder == best
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump({"stages": [{"checkpoint": str(run)}]}))
    assert read_pipeline(tmp_path / "pipeline.yaml").stages[0].checkpoint == best
    assert rayner.load(run).predict(["Ada"]) == rayner.load(best).predict(["Ada"])


def test_an_index_is_built_by_the_run_of_a_standardizer(tmp_path: Path) -> None:
    best, _ = standardizer_folder(tmp_path, PLACES)
    base = write_entities(tmp_path / "more.jsonl", PLACES[:2])
    indexes.build(best.parent, [base], tmp_path / "other", device="cpu")
    listed = indexes.list_index(tmp_path / "other")
    assert (listed["entities"], listed["checkpoint"]) == (2, str(best))


def test_what_is_no_run_stays_what_it_is(tmp_path: Path) -> None:
    copied = written(tmp_path / "copied", "checkpoint.json", "best/checkpoint.json")
    damaged = written(tmp_path / "damaged", "recipe.yaml", "model.safetensors")
    file = written(tmp_path, "pipeline.yaml") / "pipeline.yaml"
    for path in (copied, damaged, file, tmp_path / "none"):
        assert checkpoint_of(path) == path


def test_a_name_that_is_too_long_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x{256}.*: File name too long; correct the path$"):
        checkpoint_of(tmp_path / ("x" * 256))


def test_a_run_that_has_no_checkpoint_yet_says_how_to_go_on(tmp_path: Path) -> None:
    begun = written(tmp_path / "begun", "recipe.yaml", "log.jsonl")
    with pytest.raises(CheckpointError, match=rf"without best/.*; continue it with .* --out {begun}`$"):
        checkpoint_of(begun)
    spaced = written(tmp_path / "begun now", "recipe.yaml", "log.jsonl")
    with pytest.raises(CheckpointError, match=rf"continue it with .* --out '{spaced}'`$"):
        checkpoint_of(spaced)
    written(begun, "last/checkpoint.json")
    with pytest.raises(CheckpointError, match=rf"or name {begun / 'last'}, its last state$"):
        checkpoint_of(begun)


def test_a_sweep_says_which_of_its_runs_to_name(tmp_path: Path) -> None:
    sweep = written(tmp_path / "sweep", SWEEP, f"{WINNER}/best/checkpoint.json")
    with pytest.raises(CheckpointError, match=rf"is a sweep, not a checkpoint; name .* {sweep / WINNER}$"):
        checkpoint_of(sweep)
    assert checkpoint_of(sweep / WINNER) == sweep / WINNER / "best"
