"""The rankers and recognizers of `context_results`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.context_material import drawn, is_of_novels, learned_by, learned_from, sentence_documents
from benchmarks.trainings import RECIPES, train
from rayner.config import ContextSettings
from rayner.data.schema import Document
from rayner.data.writers.jsonl import write_jsonl
from rayner.metrics.ranking import score_relevance
from rayner.retrieval.contexts import PAPER_METHODS
from rayner.runtime.corpora.context_pairs import contexts
from rayner.runtime.corpora.labelled_contexts import Labelled
from rayner.supervision.context_rows import ContextRow, read_context_rows, row_to_json
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.predict import predict

CANDIDATES = 4
"""Of each of four methods, for the ranker."""
PASSES = 3
TYPES = (
    {"name": "PER", "description": "Names of people, real or fictional."},
    {"name": "LOC", "description": "Names of places, such as countries, cities, streets, houses and rivers."},
    {"name": "ORG", "description": "Names of organizations, such as firms, schools, armies and churches."},
)
EXTRACTOR = (
    "corpus.dev_fraction=0",
    f"types={json.dumps(TYPES)}",
    "decoding.overlap=flat",
    "context=null",
    "model.train_type_encoder=false",
    "training.average=null",
)
EXTRACTORS: Mapping[str, Sequence[str]] = {
    "with": ("windows.context=160", "training.epochs=1", "training.tokens_per_step=512"),
    "without": ("windows.context=0", f"training.epochs={PASSES}", "training.tokens_per_step=256"),
}
"""Both read about as many sentences a step; the passes of "with" lie in its corpus, as each draws anew."""


def train_ranker(novels: Sequence[Document], runs: Path) -> Path:
    """The run of the ranker; beside it the rows that it learns from, and those of the novels."""
    out = runs / "ranker"
    kept, left = out.with_suffix(".rows.jsonl"), out.with_suffix(".novels.jsonl")
    if not left.exists():
        path = Path(os.environ["RAYNER_DATA"]) / "synthetic-context-retrieval" / "alpaca-7b.jsonl"
        rows = read_context_rows(path).rows
        of_novels = is_of_novels(rows, novels)
        for file, wanted in ((kept, False), (left, True)):
            _write(file, [row for row, of_novel in zip(rows, of_novels, strict=True) if of_novel is wanted])
    train(RECIPES / "ranker_synthetic.yaml", out, [f"pairs.train=[{kept}]"])
    return out


def train_own_ranker(fold: int, seed: int, novels: Sequence[Document], runs: Path) -> Path:
    """The run of a fold's ranker: of the novels that the fold learns from, recognizers of one half have
    labelled the other."""
    out = runs / f"ranker_own_{fold}_{seed}"
    found: list[ContextRow] = []
    for number, (learned, labelled) in enumerate(crossed(fold, novels)):
        rows = runs / f"{out.name}_{number}.rows"
        if not (rows / "counts.json").exists():
            corpus = rows.with_suffix(".jsonl")
            write_jsonl(labelled, corpus)
            settings = ContextSettings(methods=PAPER_METHODS, count=1, candidates=CANDIDATES)
            checkpoint = _recognizer("with", runs / f"labels_{fold}_{seed}_{number}", learned, seed) / "best"
            contexts([corpus], rows, Labelled(checkpoint, settings), seed=seed)
        found += read_context_rows(rows / "rows.jsonl").rows
    parts = train_rows, dev_rows = out.with_suffix(".train.jsonl"), out.with_suffix(".dev.jsonl")
    for file, chosen in zip(parts, parts_of(found), strict=True):
        _write(file, chosen)
    changes = ["pairs.dev_fraction=0", f"pairs.train=[{train_rows}]", f"pairs.dev=[{dev_rows}]"]
    train(RECIPES / "ranker_synthetic.yaml", out, [*changes, f"seed={seed}"])
    return out


def crossed(fold: int, novels: Sequence[Document]) -> list[tuple[list[Document], list[Document]]]:
    """Of the novels that a fold learns from: those that a recognizer learns from and those that it then
    labels, twice. None is of the fold's test: a label would tell what its mentions are."""
    learned = learned_by(fold, novels)
    halves = learned[::2], learned[1::2]
    return [(halves[0], halves[1]), (halves[1], halves[0])]


def parts_of(rows: Sequence[ContextRow]) -> tuple[list[ContextRow], list[ContextRow]]:
    """Those to learn from, and those of one novel to choose by: of six, a fraction may hold none."""
    held_out = max(row.group or "" for row in rows)
    return [row for row in rows if row.group != held_out], [row for row in rows if row.group == held_out]


def _write(file: Path, rows: Sequence[ContextRow]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(row_to_json(row) + "\n" for row in rows), encoding="utf-8")


def rank_pairs(runs: Path) -> list[dict[str, Any]]:
    """The ranker on the pairs that chose its epoch, and on pairs of the novels with none of its texts."""
    out = runs / "ranker"
    file = out.with_suffix(".scores.json")
    if not file.exists():
        result = json.loads((out / "result.json").read_text("utf-8"))["metrics"]
        known = read_context_rows(out.with_suffix(".rows.jsonl")).rows
        texts = {text for row in known for text in (row.sentence, row.context)}
        left = read_context_rows(out.with_suffix(".novels.jsonl")).rows
        asked = [row for row in left if row.sentence not in texts and row.context not in texts]
        answers = list(predict(load_checkpoint(out / "best").predictor(), asked))
        scores = score_relevance([row.relevant for row in asked], [answer.score for answer in answers])
        keys = ("accuracy", "f1", "precision", "recall")
        rows = [
            {"pairs": "of the recipe's development part", **{k: result[k] for k in keys}},
            {"pairs": "of the twelve novels", "number": len(asked), **{k: scores[k] for k in keys}},
        ]
        file.write_text(json.dumps(rows), encoding="utf-8")
    return json.loads(file.read_text("utf-8"))


def extractor(kind: str, fold: int, seed: int, novels: Sequence[Document], runs: Path) -> Path:
    """The run of a fold's recognizer."""
    return _recognizer(kind, runs / f"{kind}_{fold}_{seed}", learned_by(fold, novels), seed)


def _recognizer(kind: str, out: Path, learned: Sequence[Document], seed: int) -> Path:
    corpus = out.with_suffix(".jsonl")
    if not corpus.exists():
        passes = range(PASSES if kind == "with" else 1)
        copies = [
            one
            for novel in learned
            for number in passes
            for one, is_kept in zip(
                sentence_documents(
                    novel, drawn(novel, seed, number) if kind == "with" else None, f":{number}"
                ),
                learned_from(novel, seed),
                strict=True,
            )
            if is_kept
        ]
        write_jsonl(copies, corpus)
    changes = [*EXTRACTOR, *EXTRACTORS[kind], f"corpus.train=[{corpus}]", f"seed={seed}"]
    train(RECIPES / "recognizer_litbank_context.yaml", out, changes)
    return out
