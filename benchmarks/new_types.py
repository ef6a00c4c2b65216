"""F1 on types that a recognizer never learned, from their descriptions alone, on CrossNER.

    python -m benchmarks.new_types --runs runs/new_types --precision bfloat16

Trains on four domains, each sentence labelled for the types of its domain, or on these and other corpora,
and looks for the types of the fifth. A run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import ROOT, Row, add_out, keep_origin, measured, origin_of, precision_of, record
from rayner.config import RecognizerRecipe
from rayner.config.documents import TypeSettings
from rayner.config.recipe_files import corpus_paths, load_types
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.writers import write_parquet
from rayner.metrics.spans import score_spans
from rayner.runtime.training.train import train
from rayner.tasks.registry import load_recipe, parse_recipe
from rayner.tasks.stages import load_pipeline

DOMAINS = ("politics", "science", "music", "literature", "ai")
HERE = Path(__file__).parent
OTHERS = ("wnut17", "bc5cdr")
"""Corpora beside CrossNER, by their recipes."""
LEARNED_FROM = ("domains", "texts", "corpora")
"""Four domains; these with two descriptions of each type and with absent types; these and other corpora."""
UNDESCRIBED = "misc"
PARTS = ("all", "known", "new")
UNITS = {"f1": "%"}


def read_domain(name: str, part: str) -> list[Document]:
    """The sentences of a part of a domain, annotated for the domain's described types."""
    path = corpus_paths([f"$RAYNER_DATA/crossner/{name}/{part}.txt"])
    documents = read_corpus(path).documents
    kept = [replace(d, mentions=tuple(m for m in d.mentions if m.type != UNDESCRIBED)) for d in documents]
    types = tuple(sorted({m.type for d in kept for m in d.mentions}))
    return [replace(d, document_id=f"{name}/{part}/{d.document_id}", annotated_types=types) for d in kept]


def read_other(name: str) -> tuple[list[Document], list[TypeSettings]]:
    """The training part of a corpus beside CrossNER, and its types, whose names begin with the corpus's."""
    recipe = load_recipe(ROOT / f"jobs/recipes/recognizer_{name}.yaml")
    assert isinstance(recipe, RecognizerRecipe)
    types = [t.model_copy(update={"name": f"{name}/{t.name}"}) for t in recipe.types]
    documents = [
        replace(
            d,
            document_id=f"{name}/{d.document_id}",
            mentions=tuple(replace(m, type=f"{name}/{m.type}") for m in d.mentions),
            annotated_types=tuple(t.name for t in types),
        )
        for written in recipe.corpus.train
        for d in read_corpus(corpus_paths([written])).documents
    ]
    return documents, types


def folder_of(runs: Path, held_out: str, learned_from: str) -> Path:
    """Where a training lies."""
    return runs / (f"without_{held_out}" + ("" if learned_from == "domains" else f"_{learned_from}"))


def run(held_out: str, learned_from: str, options: argparse.Namespace) -> dict[str, Any]:
    """Train without a domain and score on its development part: all, known and new types."""
    learned = [
        d
        for name in DOMAINS
        if name != held_out
        for part in ("train", "dev")
        for d in read_domain(name, part)
    ]
    names = sorted({t for d in learned for t in d.annotated_types or ()})
    types = {t.name: t for t in load_types(HERE / "crossner_types.yaml")}
    if learned_from != "texts":
        types = {name: t.model_copy(update={"descriptions": ()}) for name, t in types.items()}
    described = [types[name] for name in names]
    for other in OTHERS if learned_from == "corpora" else ():
        documents, of_other = read_other(other)
        learned += documents
        described += of_other
    out = folder_of(options.runs, held_out, learned_from)
    corpus = out.with_suffix(".parquet")
    out.parent.mkdir(parents=True, exist_ok=True)
    write_parquet(learned, corpus)
    absent = [one.model_dump() for one in load_types(HERE / "absent_types.yaml")]
    recipe = parse_recipe(
        {
            "task": "recognizer",
            "corpus": {"train": [str(corpus)]},
            "types": [one.model_dump() for one in described],
            "training": {"epochs": options.epochs, "precision": options.precision},
            "model": {"types_per_step": 16, "descriptions": "drawn" if learned_from == "texts" else "mean"},
            "absent": absent if learned_from == "texts" else [],
        },
        "new_types",
    )
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
        "learned_from": learned_from,
        "new_types": new,
        **{f"f1_{part}": score_spans(gold, found, of_part)["f1"] for part, of_part in scores.items()},
        "per_type": {t: s["f1"] for t, s in score_spans(gold, found, wanted)["per_type"].items()},
        "minutes": trained["seconds"] / 60,
    }


def figures(rows: list[dict[str, Any]]) -> tuple[Row, ...]:
    """F1 on the types of a domain together, and on each; where all domains were held out, their mean."""
    parts: list[dict[str, Any]] = []
    for learned_from in LEARNED_FROM:
        of_all = [row for row in rows if row["learned_from"] == learned_from]
        told = {"learned_from": learned_from}
        if len(of_all) == len(DOMAINS):
            means = {part: statistics.mean(row[f"f1_{part}"] for row in of_all) for part in PARTS}
            parts += [{**told, "held_out": "mean", "types": part, "f1": f1} for part, f1 in means.items()]
        for row in of_all:
            scores = {part: row[f"f1_{part}"] for part in PARTS}
            scores |= {name: f1 for name, f1 in row["per_type"].items() if name in row["new_types"]}
            parts += [{**told, "held_out": row["held_out"], "types": t, "f1": f1} for t, f1 in scores.items()]
    whole = len({row["held_out"] for row in rows}) == len(DOMAINS)

    def headline(row: Mapping[str, Any]) -> bool:
        return row["types"] == "new" and (row["held_out"] == "mean") == whole

    return measured(parts, UNITS, headline="f1", where=headline)


def main() -> None:
    """Print a row for each domain held out, and what was learned from."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--runs", type=Path, default=Path("runs/new_types"))
    parser.add_argument("--held-out", nargs="+", choices=DOMAINS, default=list(DOMAINS))
    parser.add_argument("--texts", nargs="+", choices=DOMAINS, default=[], help="held out of these, too")
    parser.add_argument("--corpora", nargs="+", choices=DOMAINS, default=[], help="held out of these, too")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    add_out(parser, "new_types")
    options = parser.parse_args()
    held_out = dict(zip(LEARNED_FROM, (options.held_out, options.texts, options.corpora), strict=True))
    planned = [(name, found) for found, names in held_out.items() for name in names]
    rows = [run(*one, options) for one in planned]
    folders = [folder_of(options.runs, *one) for one in planned]
    record(
        "new_types",
        options.out,
        origin_of(folders),
        title="Types that were never learned",
        section="Recognition",
        task="recognizer",
        conditions=f"Trained for {options.epochs} epochs on four domains of CrossNER (`domains`); on these "
        "with two descriptions of each type, of which a step draws one, and with 40 types of which no "
        "sentence has a mention (`texts`); or on these and the training parts of WNUT-17 and BC5CDR "
        "(`corpora`). Scored on the development part of the fifth domain, whose new types are looked for by "
        "their descriptions alone. `mean` is that of the domains.",
        seeds=(1,),
        precision=precision_of(folders),
        rows=figures(rows),
    )
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    call_main(main)
