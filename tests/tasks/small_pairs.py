"""Pairs of a sentence and a context that helps where it has the sentence's name, in a few dozen rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAMES = ("Ada", "Grace", "Alan", "Kurt", "Emmy", "Noor")


def ranker_recipe(folder: Path, **training: Any) -> dict[str, Any]:
    """A recipe with a small untrained encoder, and its pairs in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pairs.jsonl"
    with path.open("w") as file:
        for number, name in enumerate(NAMES * 3):
            sentence = f"{name} came home" + " at last" * (number % 3) + "."
            other = NAMES[(number + 1 + number // len(NAMES)) % len(NAMES)]
            for whose, relevant in ((name, True), (other, False)):
                row = {"sentence": sentence, "context": f"{whose} is a poet.", "relevant": relevant}
                file.write(json.dumps(row) + "\n")
    return {
        "task": "ranker",
        "encoder": "random:32x2",
        "pairs": {"train": [str(path)], "dev": [str(path)]},
        "model": {"dropout": 0.0, "length": 32},
        "training": {"epochs": 1, "tokens_per_step": 18, "learning_rate": 1e-3, "log_every": 1} | training,
    }
