"""What the end of an annotation costs (ids given twice, rejects, counts) by the number of documents.

    python -m benchmarks.annotate_finish --ids 100000 1000000 10000000 --results annotate_finish.json

The blocks are synthetic: 4,096 documents each, ids of 14 characters in no order, of which one in a hundred
is that of an earlier document. They lie in a temporary folder and are removed. Seconds are of the clock;
memory is what the end adds to the process. A number of documents whose row is among the results already is
not measured again. Beyond the largest, seconds are those of the least squares line through what was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.figures import add_out, measured, record
from benchmarks.meter import Meter
from rayner.files.places import place_of
from rayner.runtime.annotation.finish import finish
from rayner.runtime.annotation.output_folder import ANNOTATION_SCHEMA, Output, block_name

PER_BLOCK = 4096
ONE_IN = 100
SCRAMBLE = 0x9E3779B97F4A7C15
BEYOND = (10**8, 10**9)


def numbers(ids: int) -> Iterator[np.ndarray]:
    """The numbers of the documents of each block; one in a hundred is that of a document half as far."""
    for begin in range(0, ids, PER_BLOCK):
        of_block = np.arange(begin, min(ids, begin + PER_BLOCK))
        again = (of_block % ONE_IN == ONE_IN - 1) & (of_block // 2 % ONE_IN != ONE_IN - 1)
        yield np.where(again, of_block // 2, of_block)


def write(output: Output, ids: int) -> None:
    """All blocks, with what says that they are done."""
    mention = {"start": 3, "end": 9, "type": "Disease", "score": 0.9}
    mentions = pa.array([[mention] * (row % 4) for row in range(PER_BLOCK)], ANNOTATION_SCHEMA.field(1).type)
    for name in (".work/blocks", ".work/shards"):
        Path(output.place.path, name).mkdir(parents=True)
    for block, of_block in enumerate(numbers(ids)):
        name = block_name(0, block)
        count = len(of_block)
        scrambled = of_block.astype(np.uint64) * np.uint64(SCRAMBLE) >> np.uint64(17)
        lines = range(block * PER_BLOCK, block * PER_BLOCK + count)
        columns = [
            pa.array([f"{number:014d}" for number in scrambled.tolist()]),
            mentions.slice(0, count),
            pa.array(np.ones(count, np.int32)),
            pa.array(["recognizer-0123456789ab"] * count),
            pa.array([f"s3://bucket/corpus/part-00000.jsonl:{line}" for line in lines]),
        ]
        table = pa.Table.from_arrays(columns, schema=ANNOTATION_SCHEMA)
        pq.write_table(table, output.documents(name).path, compression="zstd")
        sidecar = {"documents": count, "rejected": 0, "duplicates": 0, "windows": count, "words": count}
        sidecar |= {"mentions": Counter(Disease=count), "linked": 0, "rejects": []}
        Path(output.sidecar(name).path).write_text(json.dumps(sidecar))
    read = {"blocks": -(-ids // PER_BLOCK), "documents": ids}
    Path(output.shard(0).path).write_text(json.dumps(read))


def measure(ids: int) -> dict[str, Any]:
    """Finish an annotation of so many documents."""
    seconds, counts = [], []
    with tempfile.TemporaryDirectory(prefix="annotate-finish-") as folder:
        output = Output(place_of(folder))
        write(output, ids)

        def timed() -> None:
            begun = time.monotonic()
            counts.append(finish(output, 1))
            seconds.append(time.monotonic() - begun)

        peak = Meter("cpu", "float32").peak_mb(timed)
    (found,) = counts
    assert found["documents"] + found["rejected"] == ids
    return {
        "ids": ids,
        "blocks": -(-ids // PER_BLOCK),
        "rejected": found["rejected"],
        "seconds": round(seconds[0], 2),
        "peak_mb": round(peak),
    }


def beyond(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of numbers that were not measured, from the line through those that were."""
    if len(rows) < 2:
        return []
    ids = [row["ids"] for row in rows]
    seconds = np.polyfit(ids, [row["seconds"] for row in rows], 1)
    return [
        {"ids": more, "seconds": round(float(np.polyval(seconds, more))), "from": "extrapolated"}
        for more in BEYOND
        if more > max(ids)
    ]


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--results", type=Path, help="a file of the rows that were measured, kept up to date")
    add_out(parser, "annotate_finish")
    given = parser.parse_args()
    rows = json.loads(given.results.read_text()) if given.results and given.results.exists() else []
    for ids in given.ids:
        if all(row["ids"] != ids for row in rows):
            rows.append(measure(ids))
            print(rows[-1], file=sys.stderr)
            if given.results:
                given.results.write_text(json.dumps(rows, indent=1))
    record(
        "annotate_finish",
        given.out,
        title="The end of an annotation: ids given twice, rejects, counts",
        section="Annotation",
        task="all",
        conditions=f"Synthetic blocks of {PER_BLOCK:,} documents, one id in a hundred given before. Seconds "
        "beyond the largest number are those of the line through what was measured.",
        rows=measured([*rows, *beyond(rows)], {"seconds": "s", "peak_mb": "MB"}),
    )
    print(json.dumps({"rows": [*rows, *beyond(rows)]}))


if __name__ == "__main__":
    main()
