"""Trials as a sweep leaves them, written without a training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rayner.runtime.sweeps.trials import Plan, write_json

EPOCHS = 4


def write_trial(
    plan: Plan, number: int, settings: dict[str, Any], scores: Sequence[Sequence[float | None]]
) -> Path:
    """A trial with the scores of each epoch of each run; runs with all epochs are done."""
    folder = plan.folder(settings)
    write_json(folder / "trial.json", {"number": number, "settings": settings})
    for name, run in zip(plan.runs, scores, strict=False):
        (folder / name).mkdir()
        rows: list[dict[str, Any]] = []
        for epoch, f1 in enumerate(run, 1):
            rows.append({"step": 10 * epoch, "seconds": 2.0 * epoch, "loss": 1.0})
            rows.append({"step": 10 * epoch, "epoch": epoch, "metrics": {"f1": f1}})
        (folder / name / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"cut')
        if len(run) == EPOCHS:
            write_json(folder / name / "result.json", {"steps": 40, "seconds": 9.0})
    return folder
