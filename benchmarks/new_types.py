"""F1 on types that a recognizer never learned, from their descriptions alone, on CrossNER.

    python -m benchmarks.new_types --runs runs/new_types

Trains on four domains, each sentence labelled for the types of its domain, and looks for the types of the
fifth. A run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import Row, add_out, keep_origin, measured, origin_of, record
from rayner.config.recipe_files import corpus_paths, load_types
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.writers import write_parquet
from rayner.metrics.spans import score_spans
from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from rayner.tasks.stages import load_pipeline

DOMAINS = ("politics", "science", "music", "literature", "ai")
UNDESCRIBED = "misc"
UNITS = {"f1": "%"}


def read_domain(name: str, part: str) -> list[Document]:
    """The sentences of a part of a domain, annotated for the domain's described types."""
    path = corpus_paths([f"$RAYNER_DATA/crossner/{name}/{part}.txt"])
    documents = read_corpus(path).documents
    kept = [replace(d, mentions=tuple(m for m in d.mentions if m.type != UNDESCRIBED)) for d in documents]
    types = tuple(sorted({m.type for d in kept for m in d.mentions}))
    return [replace(d, document_id=f"{name}/{part}/{d.document_id}", annotated_types=types) for d in kept]


def run(held_out: str, runs: Path, epochs: int) -> dict[str, Any]:
    """Train without a domain and score on its development part: all, known and new types."""
    learned = [
        d
        for name in DOMAINS
        if name != held_out
        for part in ("train", "dev")
        for d in read_domain(name, part)
    ]
    names = sorted({t for d in learned for t in d.annotated_types or ()})
    types = {t.name: t for t in load_types(Path(__file__).with_name("crossner_types.yaml"))}
    corpus = runs / f"without_{held_out}.parquet"
    runs.mkdir(parents=True, exist_ok=True)
    write_parquet(learned, corpus)
    recipe = parse_recipe(
        {
            "task": "recognizer",
            "corpus": {"train": [str(corpus)]},
            "types": [types[name].model_dump() for name in names],
            "training": {"epochs": epochs},
            "model": {"types_per_step": 16},
        },
        "new_types",
    )
    out = runs / f"without_{held_out}"
    finished = (out / "result.json").exists()
    trained = train(recipe, out)
    if not finished:
        keep_origin(out)
    checkpoint = Path(trained["checkpoint"])
    gold = read_domain(held_out, "dev")
    wanted = sorted({m.type for d in gold for m in d.mentions})
    found = load_pipeline(checkpoint, types=tuple(types[name] for name in wanted)).predict(gold)
    known, new = [t for t in wanted if t in names], [t for t in wanted if t not in names]
    scores = {"all": wanted, "known": known, "new": new}
    return {
        "held_out": held_out,
        "new_types": new,
        **{f"f1_{part}": score_spans(gold, found, of_part)["f1"] for part, of_part in scores.items()},
        "per_type": {t: s["f1"] for t, s in score_spans(gold, found, wanted)["per_type"].items()},
        "minutes": trained["seconds"] / 60,
    }


def figures(rows: list[dict[str, Any]]) -> tuple[Row, ...]:
    """F1 on the types of a domain together, and on each."""
    parts = [
        {"held_out": row["held_out"], "types": part, "f1": row[f"f1_{part}"]}
        for row in rows
        for part in ("all", "known", "new")
    ]
    parts += [
        {"held_out": row["held_out"], "types": name, "f1": f1}
        for row in rows
        for name, f1 in row["per_type"].items()
        if name in row["new_types"]
    ]
    return measured(parts, UNITS, headline="f1", where=lambda row: row["types"] in ("known", "new"))


def main() -> None:
    """Print a row for each domain held out."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--runs", type=Path, default=Path("runs/new_types"))
    parser.add_argument("--held-out", nargs="+", choices=DOMAINS, default=["ai"])
    parser.add_argument("--epochs", type=int, default=4)
    add_out(parser, "new_types")
    options = parser.parse_args()
    rows = [run(name, options.runs, options.epochs) for name in options.held_out]
    record(
        "new_types",
        options.out,
        origin_of(options.runs / f"without_{name}" for name in options.held_out),
        title="Types that were never learned",
        section="Recognition",
        task="recognizer",
        conditions=f"Trained on four domains of CrossNER for {options.epochs} epochs, and scored on the "
        "development part of the fifth, whose new types are looked for by their description alone.",
        seeds=(1,),
        rows=figures(rows),
    )
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    call_main(main)
