"""What contexts cost for a whole novel: retrieval, ranking and extraction, beside a plain loop.

    PYTHONPATH=platform RAYNER_DATA=DATA python -m benchmarks.context_speed --novel TheWayWeLiveNow

Sentences a second of wall time on one thread. "rayner" finds the candidates of all sentences of the novel at
once; a run of them is then ranked and read, in batches by length. The loop does for single sentences of that
run what the published code does: BM25 fitted on the whole novel for each, its pairs scored 8 at a time as
they come, then the sentence read with the chosen contexts by itself. What the other methods find costs the
loop nothing. With --precisions the stages are measured in each of them, beside the same loop in float32.
Ranker and tagger are the embedded encoder with heads that learned nothing: speed is that of trained ones,
answers are worth nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.command import call_main
from benchmarks.context_candidates import loop, read_novel
from benchmarks.figures import add_out, measured, record
from rayner.config import ContextSettings
from rayner.config.base import Precision
from rayner.data.schema import Context, Document, Span
from rayner.data.sections import Section, part_of
from rayner.data.sentences import split_sentences
from rayner.models.precision_choice import choose, set_precision
from rayner.retrieval.contexts import PAPER_METHODS, context_methods, find_contexts
from rayner.retrieval.document_sentences import DocumentSentences
from rayner.tasks.contexts.stage import ContextStage
from rayner.tasks.predict import predict
from rayner.tasks.registry import parse_recipe, train_task

PAIRS = 8
"""That the loop scores at a time."""
COUNT = 3
"""Contexts of a sentence, as in papers/001."""
TYPES = tuple({"name": name} for name in ("PER", "LOC", "ORG"))
CONDITIONS = """{novel}: {sentences:,} sentences, {candidates} candidates of each of four methods (BM25, same
noun, before, after) from the whole novel, {count} contexts, windows of 128 sub-words with 64 for contexts.
Wall time on one thread; candidates of all sentences, ranking and extraction of {asked:,} of them. Ranker and
tagger are the embedded encoder with heads that learned nothing. The loop fits BM25 for each sentence and
scores {pairs} pairs a batch as they come; it was timed for {sample} sentences, and the other methods cost it
nothing."""


Parts = dict[str, float]
"""Seconds a sentence of each part of the work."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--novel", default="TheWayWeLiveNow", help="a file of dekker-full-novels")
    parser.add_argument("--sentences", type=int, default=400, help="a run of so many is ranked and read")
    parser.add_argument("--sample", type=int, default=20, help="sentences for which the loop is timed")
    parser.add_argument("--candidates", type=int, default=8, help="of each method")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2", help="of ranker and tagger")
    parser.add_argument(
        "--precisions", nargs="+", choices=("float32", "bfloat16"), default=["float32"], help="of the stages"
    )
    add_out(parser, "context_speed")
    options = parser.parse_args()
    text = read_novel(options.novel)
    torch.set_num_threads(1)
    document = Document(options.novel, text, sentences=tuple(split_sentences(text)))
    total = len(document.sentences or ())
    size = min(options.sentences, total)
    run = range((total - size) // 2, (total - size) // 2 + size)
    settings = ContextSettings(methods=PAPER_METHODS, count=COUNT, candidates=options.candidates)
    sample = random.Random(0).sample(run, min(options.sample, size))
    plain = one_by_one(document, sample, settings, *models(options.encoder))
    loop_row = row_of("loop", plain, len(sample))
    rows = []
    for precision in options.precisions:
        ours = at_once(document, run, settings, *models(options.encoder, precision))
        row = {**row_of("rayner", ours, size), "computes in": precision}
        rows.append({**row, "over_loop": row["sentences_per_second"] / loop_row["sentences_per_second"]})
    rows.append({**loop_row, "computes in": "float32"})
    record(
        "context_speed",
        options.out,
        title="Contexts of a novel: retrieval, ranking and extraction",
        section="Context",
        task="ranker and tagger",
        conditions=CONDITIONS.replace("\n", " ").format(
            novel=options.novel,
            asked=size,
            sentences=total,
            candidates=options.candidates,
            count=COUNT,
            pairs=PAIRS,
            sample=len(sample),
        ),
        rows=measured(
            rows,
            {"sentences_per_second": "sentences/s", "over_loop": "ratio"}
            | dict.fromkeys(("retrieval", "ranking", "extraction"), "%"),
            headline="over_loop",
        ),
    )
    print(json.dumps({"rows": rows}))


def models(encoder: str, precision: Precision = "float32") -> tuple[Any, Any]:
    """A ranker and a tagger that answer, with weights that learned nothing."""
    torch.manual_seed(0)
    made = []
    for values in (
        {"task": "ranker", "pairs": {"train": ["none"]}},
        {
            "task": "tagger",
            "corpus": {"train": ["none"]},
            "types": TYPES,
            "windows": {"length": 128, "overlap": 16, "context": 64},
        },
    ):
        task = train_task(parse_recipe({"encoder": encoder, **values}, "benchmark"))
        model = task.build().eval()
        set_precision(model, choose(precision, model).precision, rounded=True)
        made.append(task.predictor(model))
    return made[0], made[1]


def row_of(way: str, parts: Parts, sentences: int) -> dict[str, Any]:
    """Sentences a second, and the share of each part."""
    total = sum(parts.values())
    shares = {name: seconds / total for name, seconds in parts.items()}
    return {"way": way, "sentences": sentences, "sentences_per_second": 1 / total, **shares}


def at_once(document: Document, run: range, settings: ContextSettings, ranker: Any, tagger: Any) -> Parts:
    """The stages: retrieval for all sentences of the document, ranking and extraction for a run of them."""
    stage, begun = ContextStage(settings, ranker), time.perf_counter()
    found = stage.candidates(document)
    parts = {"retrieval": (time.perf_counter() - begun) / len(found.of_sentence)}
    kept = [of_one if place in run else [] for place, of_one in enumerate(found.of_sentence)]
    found = replace(found, of_sentence=kept)
    stage.candidates = lambda document: found
    begun = time.perf_counter()
    (read,) = predict(stage, [document])
    parts["ranking"] = (time.perf_counter() - begun) / len(run)
    spans = list(document.sentences or ())
    asked = part_of(read, Section(spans[run.start][0], spans[run.stop - 1][1]))
    begun = time.perf_counter()
    list(predict(tagger, [asked]))
    parts["extraction"] = (time.perf_counter() - begun) / len(run)
    return parts


def one_by_one(
    document: Document, sample: Sequence[int], settings: ContextSettings, ranker: Any, tagger: Any
) -> Parts:
    """A loop over some sentences of the document."""
    spans = document.sentences or ()
    sentences = DocumentSentences([document.text[start:end] for start, end in spans])
    others = context_methods([name for name in settings.methods if name != "bm25"])
    count = settings.candidates or settings.count
    found = find_contexts(sentences, others, count, sample)
    task = ranker.task
    parts: Parts = {"retrieval": 0.0, "ranking": 0.0, "extraction": 0.0}
    for query, given in zip(sample, found, strict=True):
        times = [time.perf_counter()]
        best = loop(sentences.words, query, count)
        times.append(time.perf_counter())
        places = list(dict.fromkeys([*best, *(one.sentence for one in given)]))
        own = task.tokenizer(sentences.texts[query])[0]
        pairs = [task.pair(own, task.tokenizer(sentences.texts[place])[0]) for place in places]
        scores: list[float] = []
        for begin in range(0, len(pairs), PAIRS):
            scores += ranker.forward(pairs[begin : begin + PAIRS])
        times.append(time.perf_counter())
        chosen = sorted(zip(scores, places, strict=True), reverse=True)[: settings.count]
        contexts = [
            Context(sentences.texts[place], score, place < query)
            for score, place in sorted(chosen, key=lambda pair: pair[1])
        ]
        list(predict(tagger, [_alone(document, spans[query], contexts)]))
        times.append(time.perf_counter())
        for name, seconds in zip(parts, np.diff(times).tolist(), strict=True):
            parts[name] += seconds / len(sample)
    return parts


def _alone(document: Document, span: Span, contexts: Sequence[Context]) -> Document:
    start, end = span
    return replace(document, text=document.text[start:end], sentences=None, contexts=tuple(contexts))


if __name__ == "__main__":
    call_main(main)
