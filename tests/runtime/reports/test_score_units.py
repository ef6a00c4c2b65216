"""Scores that are no fractions are shown as they are."""

from __future__ import annotations

import json
from pathlib import Path

from rayner.config.recipe_files import dump_recipe
from rayner.runtime.reports.report import report
from rayner.tasks.registry import parse_recipe


def test_a_mean_squared_error_is_no_percentage(tmp_path: Path) -> None:
    recipe = parse_recipe({"task": "ranker", "pairs": {"train": ["rows"], "dev_fraction": 0.004}}, "recipe")
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    metrics = {"accuracy": 0.71, "mse": 0.0453, "intervals": {"confidence": 0.95, "mse": [0.03, 0.06]}}
    (tmp_path / "best").mkdir()
    (tmp_path / "best/metrics.json").write_text(json.dumps(metrics))
    record = {"step": 5, "epoch": 1, "metrics": {"mse": 0.0453, "accuracy": 0.71}}
    (tmp_path / "log.jsonl").write_text(json.dumps(record) + "\n")
    page = report(tmp_path).read_text(encoding="utf-8")
    assert '<th scope="row">mse</th><td class="n">0.0453</td><td class="n">0.0300 to 0.0600' in page
    assert '<th scope="row">accuracy</th><td class="n">71.0</td>' in page
    assert "0.4% of those of train" in page
