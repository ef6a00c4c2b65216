"""A run as a training leaves it, written without one: texts of voyages, gold and predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.schema import Document, Mention, documents_to_table
from rayner.metrics.intervals import span_intervals
from rayner.metrics.spans import score_spans

TYPES = ("PER", "LOC", "ORG", "SHIP")
NAMES = {
    "PER": ("Ada Lovelace", "Captain Nemo", "Mrs Aouda"),
    "LOC": ("London", "the Red Sea", "Bombay"),
    "ORG": ("the Reform Club", "Baring Brothers"),
    "SHIP": ("the Mongolia", "Rangoon"),
}
KINDS = {"mention": (0.62, 0.1, 80), "other": (-0.1, 0.12, 240), "threshold": (0.3, 0.04, 60)}
RECIPE = """\
task: recognizer
encoder: all-MiniLM-L6-v2
seed: 1
corpus: {train: [corpora/voyages/train.parquet], dev: [corpora/voyages/dev.parquet]}
types:
- {name: PER, description: names of people}
- {name: LOC}
- {name: ORG}
- {name: SHIP}
training: {epochs: 4}  # <script>alert("recipe")</script>
"""


def voyage(rng: np.random.Generator, name: str) -> Document:
    text, mentions = "", []
    for _ in range(rng.integers(3, 8)):
        for filler in ("It was said that ", " had left ", " before "):
            kind = str(rng.choice(TYPES, p=(0.4, 0.3, 0.2, 0.1)))
            surface = str(rng.choice(NAMES[kind]))
            text += filler
            mentions.append(Mention(len(text), len(text) + len(surface), kind))
            text += surface
        text += " & nobody <b>knew</b> why. "
    return Document(name, text, tuple(mentions))


def predict(rng: np.random.Generator, document: Document) -> Document:
    mentions = []
    for mention in document.mentions:
        fate = rng.random()
        if fate < 0.06 and mention.end - mention.start > 8:
            mentions.append(replace(mention, start=mention.start + 4))
        elif fate < 0.12:
            mentions.append(replace(mention, type=str(rng.choice(TYPES))))
        elif fate < 0.15:
            mentions.append(replace(mention, start=mention.start - 5, type="ORG"))
        elif fate > 0.25 or mention.type == "PER":
            mentions.append(mention)
    if rng.random() < 0.3:
        mentions.append(Mention(0, 2, "PER"))
    return replace(document, mentions=tuple(replace(m, score=rng.random()) for m in mentions))


def log_rows(rng: np.random.Generator) -> list[dict]:
    rows = []
    for step in range(10, 401, 10):
        parts = {name: k * float(np.exp(-step / 90) + 0.1 + 0.03 * rng.random()) for name, k in
                 (("start", 0.8), ("end", 0.7), ("span", 1.9), ("threshold", 1.1))}  # fmt: skip
        rate = 2e-4 * min(step / 40, (440 - step) / 400)
        rows.append({"step": step, "epoch": step / 100, "loss": sum(parts.values()), "parts": parts,
                     "learning_rate": rate, "words_per_second": 2400 + 90 * rng.random(), "padding": 0.031,
                     "seconds": step / 4})  # fmt: skip
        if step % 50 == 0:
            f1 = float(0.86 - 0.6 * np.exp(-step / 80))
            rows.append(
                {
                    "step": step,
                    "epoch": step / 100,
                    "metrics": {"f1": f1, "loose_f1": f1 + 0.04, "support": 9},
                }
            )
    return rows


def write_run(run: Path, types: dict[str, str] | None = None) -> Path:
    """A small run folder, as a trainer leaves it; `types` renames types."""
    rng = np.random.default_rng(7)
    names = {name: (types or {}).get(name, name) for name in TYPES}
    evaluation = run / "best" / "evaluation"
    evaluation.mkdir(parents=True)
    (run / "recipe.yaml").write_text(RECIPE)
    (run / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log_rows(rng)))
    gold = [voyage(rng, f"voyage-{i:02}") for i in range(24)]
    predicted = [predict(rng, document) for document in gold]
    gold, predicted = (
        [replace(d, mentions=tuple(replace(m, type=names[m.type]) for m in d.mentions)) for d in side]
        for side in (gold, predicted)
    )
    metrics = score_spans(gold, predicted)
    metrics["intervals"] = span_intervals(gold, predicted, resamples=200)
    (run / "best" / "metrics.json").write_text(json.dumps(metrics))
    pq.write_table(documents_to_table(gold), evaluation / "gold.parquet")
    pq.write_table(documents_to_table(predicted), evaluation / "predictions.parquet")
    similarities: dict[str, list] = {"type": [], "kind": [], "similarity": []}
    candidates: dict[str, list] = {"type": [], "margin": [], "gold": []}
    for name in names.values():
        for kind, (centre, spread, count) in KINDS.items():
            similarities["type"] += [name] * count
            similarities["kind"] += [kind] * count
            similarities["similarity"] += rng.normal(centre, spread, count).tolist()
        support = metrics["per_type"][name]["support"]
        candidates["type"] += [name] * (support + 60)
        candidates["margin"] += [*rng.normal(0.2, 0.15, support), *rng.normal(-0.2, 0.13, 60)]
        candidates["gold"] += [True] * support + [False] * 60
    pq.write_table(pa.table(similarities), evaluation / "similarities.parquet")
    pq.write_table(pa.table(candidates), evaluation / "candidates.parquet")
    return run
