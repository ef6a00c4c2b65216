"""How much memory `annotate` takes beside the model: a large input, a model that predicts nothing.

    python -m benchmarks.annotate_memory --megabytes 2048 --form jsonl

The sum of the proportional set sizes of the driver, of Ray's processes and of the workers, the object store
(1 GB) included, sampled twice a second. The input is written to a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import add_out, measured, record
from benchmarks.memory import peak_memory
from rayner.data.schema import Document
from rayner.runtime.annotation.annotate import annotate

OBJECT_STORE = 10**9
WORDS = ("the", "of", "kelp", "growth", "storm", "harbour", "Harwich", "Ingrid", "seven", "letters", "was")


@dataclass(frozen=True)
class Nothing:
    """A model that predicts nothing."""

    version: str = "nothing"

    def load(self, device: str | None) -> Any:
        """The predictor."""
        return PredictsNothing()


class PredictsNothing:
    """One window a document, without a look at it."""

    forward_cost, tokens_per_batch, whole = 0, 2048, False

    def prepare(self, item: Document) -> list[int]:
        """The length of the text."""
        return [len(item.text) // 5]

    def length_of(self, window: int) -> int:
        """About its words."""
        return window

    def forward(self, windows: Sequence[int]) -> list[None]:
        """Nothing."""
        return [None] * len(windows)

    def finish(self, item: Document, windows: Sequence[int], scores: Sequence[None]) -> Document:
        """The document as it is."""
        return item

    def evaluate(self, predicted: Sequence[Document], gold: Sequence[Document]) -> dict[str, Any]:
        """No metrics."""
        return {}


def texts(megabytes: float) -> Iterator[str]:
    """Texts of 200 to 20,000 words; every hundredth has a hundred times as many."""
    chosen = random.Random(0)
    left = megabytes * 2**20
    paragraph = " ".join(chosen.choices(WORDS, k=200)) + ".\n"
    number = 0
    while left > 0:
        number += 1
        text = f"Document {number}. " + paragraph * chosen.randint(1, 100) * (100 if number % 100 == 0 else 1)
        text = text[: int(left) + 100]
        left -= len(text)
        yield text


def write_input(folder: Path, form: str, megabytes: float) -> int:
    """One file of documents, and how many they are."""
    rows = ({"document_id": f"d{i}", "text": text} for i, text in enumerate(texts(megabytes)))
    count = 0
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([("document_id", pa.string()), ("text", pa.string())])
        with pq.ParquetWriter(folder / "in.parquet", schema, compression="none") as writer:
            while group := [row for _, row in zip(range(500), rows, strict=False)]:
                writer.write_table(pa.Table.from_pylist(group, schema=schema))
                count += len(group)
        return count
    path = folder / ("in." + form)
    with gzip.open(path, "wt", compresslevel=1) if form.endswith("gz") else path.open("w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            count += 1
    return count


def measure(megabytes: float, form: str, workers: int, cpus: float) -> dict[str, Any]:
    """Annotate an input of that size: peak memory, its parts, seconds."""
    import ray

    source = str(Path(__file__).parents[1])
    path = os.pathsep.join((f"{source}/platform", source))
    folder = Path(tempfile.mkdtemp(prefix="annotate-memory-"))
    try:
        (folder / "in").mkdir()
        count = write_input(folder / "in", form, megabytes)
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            log_to_driver=False,
            runtime_env={"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}},
        )
        begun = time.monotonic()
        with peak_memory(os.getpid()) as peak:
            counts = annotate(Nothing(), [folder / "in"], folder / "out", workers=workers, cpus=cpus)
        seconds = time.monotonic() - begun
        ray.shutdown()
        assert counts["documents"] == count
    finally:
        shutil.rmtree(folder)
    largest = sorted(peak.parts.items(), key=lambda part: -part[1])[:12]
    return {
        "form": form,
        "input_mb": megabytes,
        "documents": count,
        "peak_mb": round(peak.total / 2**20),
        "seconds": round(seconds, 1),
        "largest_mb": {name.split(" ", 1)[1]: round(size / 2**20) for name, size in reversed(largest)},
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=2048)
    parser.add_argument("--form", choices=["jsonl", "jsonl.gz", "parquet"], default="jsonl")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cpus", type=float, default=0.5)
    add_out(parser, "annotate_memory")
    given = parser.parse_args()
    row = measure(given.megabytes, given.form, given.workers, given.cpus)
    record(
        "annotate_memory",
        given.out,
        title="Memory of annotating",
        section="Annotation",
        task="annotate",
        conditions="A model that predicts nothing; the sum of the proportional set sizes of the driver, of "
        "Ray and of the workers, the object store (1 GB) included.",
        rows=measured([row], {"peak_mb": "MB", "seconds": "s"}),
    )
    print(json.dumps({"rows": [row]}), file=sys.stdout)


if __name__ == "__main__":
    main()
