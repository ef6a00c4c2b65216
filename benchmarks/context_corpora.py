"""Do other sentences of the document help beyond novels' chapters? (papers/001, its limitations)

    python -m benchmarks.context_corpora --runs runs/context_corpora --corpora litbank ncbi --seeds 1 2 3
    python -m benchmarks.context_corpora --runs runs/context_corpora --table     # trains and writes nothing

LitBank with its nested mentions (every fifth of 85 books is held out) and the abstracts of NCBI-disease
(development part). One recognizer reads each sentence alone ("without"), one with none to four other
sentences of a heuristic's, both drawn at random, drawn again in each pass ("with"), one the running text in
windows of 256 sub-words, as recipes do ("whole"); each sees all sentences three times, for as many steps.
"with" is asked for all methods, each with the best of four of its candidates; all rows are compared with its
answers without a context. The encoder of "dense" is the untrained one; the ranker learned from the synthetic
pairs for novels that have no text of the corpus. The last pass is scored: nothing is chosen on what is held
out.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.context_material import COUNTS, HEURISTICS, Chosen, best, drawn, sentence_documents
from benchmarks.context_models import CANDIDATES, train_ranker
from benchmarks.context_results import RESAMPLES, scores_of
from benchmarks.figures import add_out, measured, origin_of, record
from benchmarks.results_page import table as tables
from benchmarks.trainings import RECIPES, train
from rayner.config import ContextSettings
from rayner.data.readers import read_corpus
from rayner.data.schema import Context, Document, Mention
from rayner.data.sentences import sentences_of
from rayner.data.writers.jsonl import write_jsonl
from rayner.models.encoder import load_encoder
from rayner.models.tokenizer import load_tokenizer
from rayner.retrieval.contexts import PAPER_METHODS
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.predict import predict
from rayner.tasks.sentence_vectors import sentence_vectors

CORPORA = ("litbank", "ncbi")
HELD_OUT = 5
"""Of LitBank one book in so many."""
METHODS = (*HEURISTICS, "dense", "neural")
PASSES = 3
EXTRACTORS: Mapping[str, Sequence[str]] = {
    "without": (f"training.epochs={PASSES}", "training.tokens_per_step=512"),
    "with": ("windows.context=160", "training.epochs=1", "training.tokens_per_step=1024"),
    "whole": (f"training.epochs={PASSES}", "training.tokens_per_step=512"),
}
"""All read about as many sentences a step; the passes of "with" lie in its corpus, as each draws anew."""
CHANGES = (
    *("corpus.dev=[]", "corpus.dev_fraction=0", "corpus.rename={}"),
    *("windows.length=256", "training.average=null"),
)

Span = tuple[int, int, str]
Asked = tuple[str, str, int]
"""A recognizer's kind, the method and the number of contexts."""


class Parts(NamedTuple):
    """Documents with their sentences: to learn from, and to ask."""

    learned: list[Document]
    asked: list[Document]


def parts_of(corpus: str) -> Parts:
    """The documents of a corpus, cut into sentences as it is, or else by our rules."""
    data = Path(os.environ["RAYNER_DATA"])
    if corpus == "litbank":
        books = _read(data / "litbank" / "entities_tsv")
        of_test = [number % HELD_OUT == 0 for number in range(len(books))]
        return Parts(
            [book for book, is_asked in zip(books, of_test, strict=True) if not is_asked],
            [book for book, is_asked in zip(books, of_test, strict=True) if is_asked],
        )
    folder = data / "ncbi-disease-pubtator"
    learned, asked = (_read(folder / f"NCBI{part}set_corpus.txt") for part in ("train", "develop"))
    return Parts(_as_diseases(learned), _as_diseases(asked))


def _read(path: Path) -> list[Document]:
    return [replace(one, sentences=tuple(sentences_of(one))) for one in read_corpus([path]).documents]


def _as_diseases(documents: Iterable[Document]) -> list[Document]:
    """The four types are one, as in the recipe."""
    return [
        replace(one, mentions=tuple(replace(mention, type="Disease") for mention in one.mentions))
        for one in documents
    ]


def extractor(corpus: str, kind: str, seed: int, precision: str, runs: Path) -> Path:
    """The run of a recognizer."""
    out = runs / f"{corpus}_{kind}_{seed}"
    file = out.with_suffix(".jsonl")
    if not file.exists():
        write_jsonl(learned_by(kind, parts_of(corpus).learned, seed), file)
    changes = [*EXTRACTORS[kind], *CHANGES, f"corpus.train=[{file}]", f"seed={seed}"]
    train(RECIPES / f"recognizer_{corpus}.yaml", out, [*changes, f"training.precision={precision}"])
    return out


def learned_by(kind: str, documents: Sequence[Document], seed: int) -> list[Document]:
    """What a recognizer of this kind reads: documents, or each of their sentences."""
    if kind == "whole":
        return [*documents]
    if kind == "without":
        return [sentence for one in documents for sentence in sentence_documents(one)]
    return [
        sentence
        for number in range(PASSES)
        for one in documents
        for sentence in sentence_documents(one, drawn(one, seed, number), f":{number}")
    ]


def contexts_of(corpus: str, asked: Sequence[Document], method: str, runs: Path) -> dict[str, Chosen]:
    """For each document, the most contexts of each of its sentences by a method, with scores."""
    file = runs / f"{corpus}_contexts_{method}.json"
    if not file.exists():
        settings = ContextSettings(
            methods=PAPER_METHODS if method == "neural" else (method,),  # pyright: ignore[reportArgumentType]
            count=max(COUNTS),
            candidates=CANDIDATES if method == "neural" else max(COUNTS),
        )
        stage = ContextStage(
            settings,
            load_checkpoint(runs / corpus / "ranker" / "best").predictor() if method == "neural" else None,
            _untrained() if method == "dense" else None,
        )
        rows = {
            one.document_id: [[[c.text, c.score, c.before] for c in of] for of in one.sentence_contexts or ()]
            for one in predict(stage, [replace(document, mentions=()) for document in asked])
        }
        file.write_text(json.dumps(rows), encoding="utf-8")
    rows = json.loads(file.read_text("utf-8"))
    return {name: [[Context(*c) for c in of] for of in chosen] for name, chosen in rows.items()}


def _untrained() -> Any:
    name = "all-MiniLM-L6-v2"
    return partial(sentence_vectors, load_encoder(name).eval(), load_tokenizer(name))


def find(
    corpus: str, of: Asked, seed: int, precision: str, asked: Sequence[Document], runs: Path
) -> dict[str, list[Span]]:
    """What a recognizer finds in each document, by the document's id."""
    file = _found(corpus, of, seed, runs)
    if not file.exists():
        kind, method, count = of
        predictor = load_checkpoint(extractor(corpus, kind, seed, precision, runs) / "best").predictor()
        if kind == "whole":
            answers = predict(predictor, [replace(one, mentions=()) for one in asked])
            found = {one.document_id: spans_of(one.mentions) for one in answers}
        else:
            chosen = contexts_of(corpus, asked, method, runs) if count else {}
            found = {}
            for one in asked:
                contexts = [best(few, count) for few in chosen[one.document_id]] if count else None
                answers = predict(predictor, sentence_documents(replace(one, mentions=()), contexts))
                found[one.document_id] = [
                    span
                    for (start, _), answer in zip(one.sentences or (), answers, strict=True)
                    for span in spans_of(answer.mentions, start)
                ]
        file.write_text(json.dumps(found), encoding="utf-8")
    return {
        name: [(start, end, type_) for start, end, type_ in spans]
        for name, spans in json.loads(file.read_text("utf-8")).items()
    }


def spans_of(mentions: Iterable[Mention], shift: int = 0) -> list[Span]:
    """Where mentions are in a document, of whose part that begins at `shift` they are."""
    return [(mention.start + shift, mention.end + shift, mention.type) for mention in mentions]


def _found(corpus: str, of: Asked, seed: int, runs: Path) -> Path:
    return runs / f"{corpus}_found_{'_'.join(map(str, of))}_{seed}.json"


def counts_of(asked: Sequence[Document], found: Mapping[str, Sequence[Span]]) -> np.ndarray:
    """Right, predicted and gold mentions of each document: [documents, 3]."""
    pairs = [({*spans_of(one.mentions)}, {*found[one.document_id]}) for one in asked]
    return np.array([(len(gold & spans), len(spans), len(gold)) for gold, spans in pairs])


def rows_of(corpus: str, counts: Mapping[Asked, np.ndarray]) -> list[dict[str, Any]]:
    """One row for each recognizer, method and number of contexts, from counts [seeds, documents, 3]."""
    table = []
    documents = next(iter(counts.values())).shape[1]
    draws = np.random.default_rng(0).integers(0, documents, (RESAMPLES, documents))
    # Of each resample, the mean over seeds.
    drawn_f1 = {key: scores_of(of[:, draws])[2].mean(0) for key, of in counts.items()}
    none = ("with", "none", 0)
    for key, of in counts.items():
        kind, method, count = key
        precision, recall, f1 = scores_of(of)
        row: dict[str, Any] = {"corpus": corpus, "trained": kind, "method": method, "contexts": count}
        row |= {"seeds": len(f1), "precision": float(precision.mean()), "recall": float(recall.mean())}
        row |= {"f1": float(f1.mean()), "f1_interval": np.percentile(drawn_f1[key], [2.5, 97.5]).tolist()}
        row |= {"f1_deviation": float(f1.std(ddof=1))} if len(f1) > 1 else {}
        if key != none and none in counts:
            gains = f1 - scores_of(counts[none])[2]
            row |= {"gain": float(gains.mean())}
            row["gain_interval"] = np.percentile(drawn_f1[key] - drawn_f1[none], [2.5, 97.5]).tolist()
            row |= {"gain_deviation": float(gains.std(ddof=1))} if len(f1) > 1 else {}
        table.append(row)
    return table


def plan(methods: Sequence[str], numbers: Sequence[int]) -> list[Asked]:
    """What is asked: all recognizers without contexts, one with those of each method."""
    planned = [("with", "none", 0), ("without", "none", 0), ("whole", "none", 0)]
    # The one before and the nearest of both sides are the same sentence.
    of_methods = [("with", m, n) for n in numbers for m in methods if (m, n) != ("surrounding", 1)]
    return planned + of_methods


def main() -> None:
    """Train what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/context_corpora"))
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--counts", nargs="+", type=int, choices=COUNTS, default=list(COUNTS))
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--parallel", type=int, default=2, help="trainings at a time, one thread each")
    parser.add_argument(
        "--table", action="store_true", help="print what is finished, train and write nothing"
    )
    parser.add_argument("--json", action="store_true")
    add_out(parser, "context_corpora")
    options = parser.parse_args()
    runs, precision = options.runs.resolve(), options.precision
    of_runs = [(c, kind, seed) for seed in options.seeds for c in options.corpora for kind in EXTRACTORS]
    planned = plan(options.methods, options.counts)
    table: list[dict[str, Any]] = []
    if not options.table:
        torch.set_num_threads(1)
        runs.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(options.parallel) as pool:
            list(pool.map(lambda run: extractor(run[0], run[1], run[2], precision, runs), of_runs))
    for corpus in options.corpora:
        parts = parts_of(corpus)
        if not options.table and "neural" in options.methods:
            train_ranker([*parts.learned, *parts.asked], runs / corpus)
        counts = {}
        for of in planned:
            done = [seed for seed in options.seeds if _found(corpus, of, seed, runs).exists()]
            if options.table and len(done) < len(options.seeds):
                continue
            found = [find(corpus, of, seed, precision, parts.asked, runs) for seed in options.seeds]
            counts[of] = np.stack([counts_of(parts.asked, one) for one in found])
        table += rows_of(corpus, counts) if counts else []
    shown = measured(
        table,
        dict.fromkeys(("precision", "recall", "f1", "gain"), "%"),
        n=lambda row: row["seeds"],
        headline="gain",
        where=lambda row: (row["method"], row["contexts"]) == ("neural", 1),
    )
    if not options.table:
        rankers = [runs / corpus / "ranker" for corpus in options.corpora if "neural" in options.methods]
        record(
            "context_corpora",
            options.out,
            origin_of([*rankers, *(runs / "_".join(map(str, run)) for run in of_runs)]),
            title="Contexts: LitBank and NCBI-disease",
            section="Context",
            task="ranker and recognizer",
            conditions=" ".join(str(__doc__).split("\n\n")[2].split()),
            precision=precision,
            seeds=tuple(options.seeds),
            uncertainty="± is the standard deviation over seeds; intervals of 95 % by a bootstrap over whole "
            "documents, of the mean over seeds, paired for differences.",
            rows=shown,
        )
    print(json.dumps({"rows": table}) if options.json else "\n\n".join(tables(shown)))


if __name__ == "__main__":
    call_main(main)
