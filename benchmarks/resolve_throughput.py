"""The throughput of `corpus resolve` in this process, and over one and two tasks of Ray side by side.

    python -m benchmarks.resolve_throughput TEXTS... --resolver rules 4 --resolver ranking:CHECKPOINT 0.5

A resolver is given with the megabytes that it reads. The texts are cut at the ends of lines into stories of
about 64,000 characters, until there are enough. Ray runs before the clock starts; the start of its worker
processes, and loading of a model, count. Everything has one thread. The order is reversed in each repetition:
a machine that slows down favours none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from rayner.data.readers import read_corpus
from rayner.runtime.cluster import ensure_ray
from rayner.runtime.corpora.resolve import resolve_texts

CHARACTERS = 2**16
WORKERS = (0, 1, 2)
UNITS = {"words_per_second": "words/s", "ratio": "ratio"}


def stories(texts: Sequence[Path], size: int) -> Iterator[str]:
    """Parts of texts, of `size` characters together."""
    for document in read_corpus(list(texts)).documents:
        begin = end = 0
        for line in document.text.splitlines(keepends=True):
            end += len(line)
            if end - begin >= min(CHARACTERS, size):
                yield document.text[begin:end]
                size, begin = size - (end - begin), end
            if size <= 0:
                return


def write_input(folder: Path, texts: Sequence[Path], size: int) -> int:
    """A file a story; the number of their words."""
    words = 0
    for number, story in enumerate(stories(texts, size)):
        (folder / f"story-{number:04d}.txt").write_text(story, "utf-8")
        words += len(story.split())
    return words


def measure(name: str, given: Path, words: int, repeats: int) -> list[dict[str, Any]]:
    """A row for each number of tasks: words a second, beside those of this process."""
    rates: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    chains = set()
    ensure_ray()
    for turn in range(repeats):
        for workers in WORKERS if turn % 2 == 0 else WORKERS[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                begun = time.monotonic()
                counts = resolve_texts([given], Path(folder, "out"), [name], workers=workers)
                rates[workers].append(words / (time.monotonic() - begun))
            chains.add((counts["chains"], counts["pronouns"]))
    assert len(chains) == 1, "not the same chains"
    here = rates[0]
    return [
        {
            "resolver": name.partition(":")[0],
            "tasks": workers or "this process",
            "words": words,
            "words_per_second": round(statistics.median(of)),
            "ratio": round(statistics.median(of) / statistics.median(here), 3),
            "ratio_interval": [min(ratios), max(ratios)],
            "repeats": repeats,
        }
        for workers, of in rates.items()
        for ratios in [[mine / plain for mine, plain in zip(of, here, strict=True)]]
    ]


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--resolver", nargs=2, action="append", required=True, metavar=("NAME", "MEGABYTES"))
    parser.add_argument("--repeats", type=int, default=1)
    add_out(parser, "resolve_throughput")
    given = parser.parse_args()
    path = os.pathsep.join(("platform", ".", os.environ.get("PYTHONPATH", "")))
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", PYTHONPATH=path)
    rows: list[dict[str, Any]] = []
    for name, megabytes in given.resolver:
        with tempfile.TemporaryDirectory() as folder:
            words = write_input(Path(folder), given.texts, round(float(megabytes) * 10**6))
            rows += measure(name, Path(folder), words, given.repeats)
    record(
        "resolve_throughput",
        given.out,
        title="Coreference resolution over tasks of Ray",
        section="Pre-training",
        task="corpus resolve",
        conditions="Stories of 64,000 characters, cut from raw texts; one thread a process. Ray runs before; "
        "the start of its worker processes and loading of a model count. All ways find as many chains.",
        uncertainty="Medians; the interval of the ratio is that of its rounds.",
        rows=measured(rows, UNITS, headline="ratio", where=lambda row: row["tasks"] == max(WORKERS)),
    )
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    call_main(main)
