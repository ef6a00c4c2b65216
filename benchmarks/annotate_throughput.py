"""The throughput of `annotate` on Ray, start-up apart, beside plain loops over the same model.

    python -m benchmarks.annotate_throughput CHECKPOINT CORPUS... --sentences 20000

One actor is measured beside one plain process, and two actors, with half a logical CPU each, beside two plain
processes. Everything has one thread. A plain process has its documents in memory and calls `predict`; it
reads and writes nothing. The order is reversed in each repetition: a machine that slows down favours none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from rayner.data.readers import read_corpus
from rayner.data.schema import Document

LEAST = 0.9
UNITS = {
    "plain_words_per_second": "words/s",
    "annotate_words_per_second": "words/s",
    "ratio": "ratio",
    "startup_seconds": "s",
}


def sentences_of(corpora: Iterable[Path]) -> list[str]:
    """The sentences of corpora; a document without sentences is one."""
    found = []
    for document in read_corpus(list(corpora)).documents:
        spans = document.sentences or ((0, len(document.text)),)
        found += [document.text[start:end] for start, end in spans if document.text[start:end].strip()]
    return found


def write_input(path: Path, sentences: list[str], count: int) -> None:
    """A document a sentence, over and over until there are enough."""
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(islice(cycle(sentences), count)):
            file.write(json.dumps({"document_id": f"s{number}", "text": text}) + "\n")


def work_plainly(checkpoint: Path, given: Path, part: int, parts: int) -> None:
    """What a plain process does: load, say so, wait for the word, predict, print words and times."""
    import torch

    import rayner
    from rayner.runtime.annotation.block import count_words
    from rayner.tasks.predict import predict

    torch.set_num_threads(1)
    rows = [json.loads(line) for line in given.read_text("utf-8").splitlines()][part::parts]
    documents = [Document(row["document_id"], row["text"]) for row in rows]
    loaded = rayner.load(checkpoint, device="cpu")
    predictor = loaded.predictor
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.time()
    with torch.no_grad():
        mentions = sum(len(document.mentions) for document in predict(predictor, documents))
    ended = time.time()
    words = sum(count_words(document.text) for document in documents)
    print(json.dumps({"words": words, "mentions": mentions, "begun": begun, "ended": ended}), flush=True)


def plain_rate(checkpoint: Path, given: Path, processes: int) -> tuple[float, int]:
    """Words a second of plain processes side by side, and the mentions that they found."""
    command = [sys.executable, "-m", "benchmarks.annotate_throughput", str(checkpoint), str(given)]
    running = [
        subprocess.Popen(
            [*command, "--part", str(part), "--parts", str(processes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in range(processes)
    ]
    for process in running:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    rows = [json.loads(process.communicate()[0]) for process in running]
    seconds = max(row["ended"] for row in rows) - min(row["begun"] for row in rows)
    return sum(row["words"] for row in rows) / seconds, sum(row["mentions"] for row in rows)


def annotate_rate(checkpoint: Path, given: Path, actors: int) -> tuple[float, int, float]:
    """Words a second of actors after start-up, the mentions that they found, and the start-up in seconds."""
    import ray

    from rayner.runtime.annotation.annotate import annotate

    with tempfile.TemporaryDirectory() as folder:
        counts = annotate(checkpoint, [given], folder, workers=actors, cpus=1.0 if actors == 1 else 0.5)
    ray.shutdown()
    return counts["words_per_second"], counts["mentions"], counts["startup_seconds"]


def compare(checkpoint: Path, given: Path, count: int, repeats: int) -> list[dict[str, Any]]:
    """A row for one actor and one for two: words a second beside those of as many plain processes."""
    rows = []
    for workers in (1, 2):
        plain, actors, startups = [], [], []
        mentions = set()
        for turn in range(repeats):
            for kind in ("plain", "actors") if turn % 2 == 0 else ("actors", "plain"):
                if kind == "plain":
                    rate, found = plain_rate(checkpoint, given, workers)
                    plain.append(rate)
                else:
                    rate, found, startup = annotate_rate(checkpoint, given, workers)
                    actors.append(rate)
                    startups.append(startup)
                mentions.add(found)
        assert len(mentions) == 1, "not the same mentions"
        ratio = statistics.median(actors) / statistics.median(plain)
        of_turns = [mine / other for mine, other in zip(actors, plain, strict=True)]
        rows.append(
            {
                "workers": workers,
                "sentences": count,
                "plain_words_per_second": round(statistics.median(plain)),
                "annotate_words_per_second": round(statistics.median(actors)),
                "ratio": round(ratio, 3),
                "ratio_interval": [min(of_turns), max(of_turns)],
                "least": LEAST,
                "startup_seconds": round(statistics.median(startups), 1),
                "repeats": repeats,
            }
        )
    return rows


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--sentences", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--part", type=int)
    parser.add_argument("--parts", type=int)
    add_out(parser, "annotate_throughput")
    given = parser.parse_args()
    if given.parts:
        work_plainly(given.checkpoint, given.corpora[0], given.part, given.parts)
        return
    path = os.pathsep.join(("platform", ".", os.environ.get("PYTHONPATH", "")))
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", PYTHONPATH=path)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.jsonl")
        write_input(source, sentences_of(given.corpora), given.sentences)
        rows = compare(given.checkpoint, source, given.sentences, given.repeats)
    record(
        "annotate_throughput",
        given.out,
        title="Annotation on Ray beside plain processes",
        section="Annotation",
        task="recognizer",
        conditions="Sentences of the corpus, again and again; one thread a process; words a second after "
        "start-up, which is shown apart; plain processes and actors in turn.",
        uncertainty="Medians; the interval of the ratio is that of its rounds.",
        rows=measured(rows, UNITS, headline="ratio"),
    )
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    call_main(main)
