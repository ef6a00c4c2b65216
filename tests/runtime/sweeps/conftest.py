"""What tests of sweeps share."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.runtime.sweeps.plan import Plan, plan_of
from rayner.runtime.sweeps.sweep_settings import objectives, sweep_settings
from rayner.runtime.sweeps.trials import (
    write_json,
)
from rayner.tasks.registry import parse_recipe
from tests.runtime.sweeps.written_trials import EPOCHS
from tests.runtime.training.several_workers import tiny_recipe


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "sweep"
    recipe = parse_recipe(tiny_recipe(tmp_path / "corpus", "tagger", epochs=EPOCHS), "recipe")
    settings = sweep_settings(objectives=objectives(["f1", "seconds"], recipe), folds=2)
    config = {
        "space": {"training.learning_rate": "1e-05 to 0.01 (log)"},
        "recipe": recipe.model_dump(mode="json"),
        "settings": settings.model_dump(mode="json"),
    }
    write_json(out / "sweep.json", config)
    return plan_of(out)
