"""Contexts in novels: does a ranker choose better than heuristics do? (papers/001, sections 4 and 5)

    python -m benchmarks.context_results --runs runs/context            # all; goes on where it was cut off
    python -m benchmarks.context_results --runs runs/context --table    # trains and writes nothing

The first chapters of twelve novels of Dekker et al., cut into sentences as published, in two folds of six;
contexts come from the same chapter, or from it and the rest of the novel ("book"). The recognizer of a fold
learns from the other six novels: "without" reads each sentence alone; "with" reads it with none to four
contexts of a method of the chapter, both drawn at random, drawn again in each pass. It is the same for all
methods, and all are compared with its own answers without a context: what a model that never saw a context
does without one is another question. One ranker serves all folds; it learns from no synthetic row that has a
text of one of the twelve novels. That of "own labels" learns from the novels that its fold's recognizer
learns from: whether a context raises what a recognizer of three of them gives to the mentions of the other
three, and the other way round. To save time there are three passes and four candidates of each method, a
recognizer learns from a quarter of the sentences without a capitalized word that the novel never writes
small, and all methods read these alone.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.context_material import (
    COUNTS,
    FOLDS,
    HEURISTICS,
    AskedSentences,
    Chosen,
    best,
    load_novels,
    sentence_documents,
    tested_in,
    with_rest_of_book,
)
from benchmarks.context_models import (
    CANDIDATES,
    EXTRACTORS,
    extractor,
    rank_pairs,
    train_own_ranker,
    train_ranker,
)
from benchmarks.figures import add_out, measured, origin_of, record
from benchmarks.results_page import table as tables
from rayner.config import ContextSettings
from rayner.data.schema import Context, Document, Mention
from rayner.metrics.spans import precision_recall_f1
from rayner.retrieval.contexts import PAPER_METHODS
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.contexts.rankers import load_ranker, place_of_ranker
from rayner.tasks.predict import predict

BOOK = " (book)"
"""Ends the name of a method that finds contexts in the whole novel, not in the chapter alone."""
OF_BOOK = ("bm25", "same_noun", "random", "neural")
OWN = "neural (own labels)"
RERANKER = "reranker "
"""Begins the name of a method that is a reranker of Hugging Face, whose id or folder follows."""
METHODS = (*HEURISTICS, "neural", OWN, *(f"{name}{BOOK}" for name in OF_BOOK))
RESAMPLES = 2000


def contexts_of(
    fold: int, novels: Sequence[Document], method: str, seed: int, runs: Path
) -> dict[str, Chosen]:
    """For each novel of a fold, the most contexts of each asked sentence by a method, with scores."""
    file = runs / f"contexts_{fold}_{_in_name(method)}.json"
    if not file.exists():
        name = method.removesuffix(BOOK)
        neural = method.startswith(("neural", RERANKER))
        settings = ContextSettings(
            methods=PAPER_METHODS if neural else (name,),  # pyright: ignore[reportArgumentType]
            count=max(COUNTS),
            candidates=CANDIDATES if neural else max(COUNTS),
        )
        tested = tested_in(fold, novels)
        ranker = _ranker(name, fold, novels, seed, runs) if neural else None
        texts = [
            with_rest_of_book(one) if method.endswith(BOOK) else replace(one, mentions=()) for one in tested
        ]
        rows = {
            one.document_id: [
                [[c.text, c.score, c.before] for c in of] for of in chosen[: len(novel.sentences or ())]
            ]
            for novel, one in zip(tested, predict(AskedSentences(settings, ranker), texts), strict=True)
            if (chosen := one.sentence_contexts) is not None
        }
        file.write_text(json.dumps(rows), encoding="utf-8")
    rows = json.loads(file.read_text("utf-8"))
    return {name: [[Context(*c) for c in of] for of in chosen] for name, chosen in rows.items()}


def _ranker(name: str, fold: int, novels: Sequence[Document], seed: int, runs: Path) -> Any:
    if name.startswith(RERANKER):
        return load_ranker(place_of_ranker(name.removeprefix(RERANKER), Path.cwd()))
    run = train_own_ranker(fold, seed, novels, runs) if name == OWN else runs / "ranker"
    return load_checkpoint(run / "best").predictor()


Spans = list[tuple[int, int, str]]


def find(
    fold: int, kind: str, method: str, count: int, seed: int, novels: Sequence[Document], runs: Path
) -> dict[str, Spans]:
    """What a fold's recognizer finds in each sentence of the fold's novels."""
    file = _found(fold, kind, method, count, seed, runs)
    if not file.exists():
        tested = tested_in(fold, novels)
        alone = {} if method == "none" else find(fold, kind, "none", 0, seed, novels, runs)
        chosen = None if method == "none" else contexts_of(fold, novels, method, seed, runs)
        asked: list[Document] = []
        for novel in tested:
            own = None if chosen is None else [best(of, count) for of in chosen[novel.document_id]]
            asked += [one for one in sentence_documents(novel, own) if one.contexts or chosen is None]
        answers = predict(_predictor(extractor(kind, fold, seed, novels, runs)), asked)
        found = {one.document_id: [(m.start, m.end, m.type) for m in one.mentions] for one in answers}
        file.write_text(json.dumps({**alone, **found}), encoding="utf-8")
    return json.loads(file.read_text("utf-8"))


def _found(fold: int, kind: str, method: str, count: int, seed: int, runs: Path) -> Path:
    return runs / f"found_{kind}_{fold}_{seed}_{_in_name(method)}_{count}.json"


def _in_name(method: str) -> str:
    return re.sub(r"[^\w() .-]", "_", method)


def _predictor(run: Path) -> Any:
    return load_checkpoint(run / "best").predictor()


def counts_of(novels: Sequence[Document], found: Mapping[str, Spans]) -> np.ndarray:
    """Right, predicted and gold mentions of each novel: [novels, 3]."""
    table = np.zeros((len(novels), 3), np.int64)
    for row, novel in zip(table, novels, strict=True):
        for one in sentence_documents(novel):
            gold = {_key(mention) for mention in one.mentions}
            predicted = {tuple(span) for span in found[one.document_id]}
            row += len(gold & predicted), len(predicted), len(gold)
    return table


def _key(mention: Mention) -> tuple[int, int, str]:
    return mention.start, mention.end, mention.type


def scores_of(counts: np.ndarray) -> np.ndarray:
    """Micro precision, recall and F1 from counts [..., novels, 3]: [3, ...]."""
    right, predicted, gold = np.moveaxis(counts.sum(-2), -1, 0)
    return np.stack(precision_recall_f1(right, right, predicted, gold))


def rows_of(counts: Mapping[tuple[str, str, int], np.ndarray], names: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each recognizer, method and number of contexts, then one for each novel."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, len(names), (RESAMPLES, len(names)))
    f1 = {key: scores_of(of[draws])[2] for key, of in counts.items()}

    def above(one: tuple[str, str, int], other: tuple[str, str, int], name: str) -> dict[str, Any]:
        difference = scores_of(counts[one])[2] - scores_of(counts[other])[2]
        interval = np.percentile(f1[one] - f1[other], [2.5, 97.5]).tolist()
        return {name: float(difference), f"{name}_interval": interval}

    table = []
    for key, of in counts.items():
        kind, method, count = key
        row: dict[str, Any] = {"trained": f"{kind} contexts", "method": method, "contexts": count}
        row |= dict(zip(("precision", "recall", "f1"), scores_of(of).tolist(), strict=True))
        row["f1_interval"] = np.percentile(f1[key], [2.5, 97.5]).tolist()
        of_book = BOOK if method.endswith(BOOK) else ""
        none, neural = ("with", "none", 0), ("with", f"neural{of_book}", count)
        if key != none and none in counts:
            row |= above(key, none, "gain")
            novels = scores_of(of[:, None])[2] - scores_of(counts[none][:, None])[2]
            row |= {"novels_above": int((novels > 0).sum()), "novels_below": int((novels < 0).sum())}
        if method in (*HEURISTICS, *(f"{name}{BOOK}" for name in HEURISTICS)) and neural in counts:
            row |= above(neural, key, "neural_above")
        table.append(row)
    for number, name in enumerate(names):
        row = {"novel": name}
        for (kind, method, count), of in counts.items():
            if kind == "with" and count in (0, 1):
                row |= {"mentions": int(of[number, 2])} if method == "none" else {}
                row[method] = float(scores_of(of[number : number + 1])[2])
        table.append(row)
    return table


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/context"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folds", nargs="+", type=int, choices=range(FOLDS), default=list(range(FOLDS)))
    parser.add_argument("--extractors", nargs="+", choices=EXTRACTORS, default=list(EXTRACTORS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--rerankers",
        nargs="*",
        default=[],
        metavar="NAME",
        help="also ids or folders of Hugging Face, such as castorini/monot5-base-msmarco",
    )
    parser.add_argument("--counts", nargs="+", type=int, choices=COUNTS, default=list(COUNTS))
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out(parser, "context_novels")
    options = parser.parse_args()
    runs, seed = options.runs.resolve(), options.seed
    methods = [*options.methods, *(f"{RERANKER}{name}" for name in options.rerankers)]
    novels = load_novels()
    tested = [novel for fold in options.folds for novel in tested_in(fold, novels)]
    planned = [("with", "none", 0)]
    planned += [("with", method, count) for count in options.counts for method in methods]
    if "without" in options.extractors:
        planned.append(("without", "none", 0))
    # The one before and the nearest of both sides are the same sentence.
    planned = [one for one in planned if one != ("with", "surrounding", 1)]
    if not options.table:
        torch.set_num_threads(1)
        train_ranker(novels, runs)
    counts: dict[tuple[str, str, int], np.ndarray] = {}
    for kind, method, count in planned:
        files = [_found(fold, kind, method, count, seed, runs) for fold in options.folds]
        if options.table and not all(file.exists() for file in files):
            continue
        parts = [find(fold, kind, method, count, seed, novels, runs) for fold in options.folds]
        found = {name: spans for part in parts for name, spans in part.items()}
        counts[kind, method, count] = counts_of(tested, found)
    table = rows_of(counts, [novel.document_id for novel in tested])
    if (runs / "ranker" / "result.json").exists():
        table += rank_pairs(runs)
    shown = measured(
        table,
        dict.fromkeys(
            ("precision", "recall", "f1", "accuracy", "gain", "neural_above", "none", *METHODS, *methods), "%"
        ),
        headline="gain",
        where=lambda row: (row["method"], row["contexts"]) == ("neural", 1),
    )
    if not options.table:
        folders = [runs / f"{kind}_{fold}_{seed}" for kind in options.extractors for fold in options.folds]
        if OWN in options.methods:
            folders += [runs / f"ranker_own_{fold}_{seed}" for fold in options.folds]
        record(
            "context_results",
            options.out,
            origin_of([runs / "ranker", *folders]),
            title="Contexts: first chapters of novels",
            section="Context",
            task="ranker and recognizer",
            conditions=" ".join(str(__doc__).split("\n\n")[2].split())
            + (
                f" Measured: fold {', '.join(map(str, options.folds))}." if len(options.folds) < FOLDS else ""
            ),
            seeds=(seed,),
            uncertainty="Intervals are of 95 %, by a bootstrap over whole novels, paired for differences.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
