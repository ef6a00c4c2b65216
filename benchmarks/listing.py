"""What a conversion costs before its first file is read: listing the files, and cutting them into parts.

    python -m benchmarks.listing --files 1000000

The files are tiny, 1,000 a folder, in a temporary folder that is removed. Seconds are of the clock, memory is
what the process grows by.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.figures import add_out, measured, record
from benchmarks.meter import Meter
from rayner.data.readers import find_units
from rayner.runtime.corpora.kept_parts import cut_parts

PER_FOLDER = 1000


def write(folder: Path, count: int) -> None:
    """Files of JSON lines, of one line each."""
    for number in range(count):
        inside = folder / f"part-{number // PER_FOLDER:06d}"
        if number % PER_FOLDER == 0:
            inside.mkdir()
        (inside / f"document-{number:09d}.jsonl").write_bytes(b'{"text": "x"}\n')


def measure(folder: Path, count: int) -> dict[str, Any]:
    """List and cut them."""
    seconds: list[float] = []

    def listed() -> None:
        begun = time.monotonic()
        units = find_units([folder])
        seconds.append(time.monotonic() - begun)
        parts = cut_parts(units, "convert")
        seconds.append(time.monotonic() - begun)
        assert sum(len(part.of.units) for part in parts) == len(units) == count

    peak = Meter("cpu", "float32").peak_mb(listed)
    return {
        "files": count,
        "list_seconds": round(seconds[0], 1),
        "seconds": round(seconds[1], 1),
        "peak_mb": round(peak),
    }


def main() -> None:
    """Print the rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10**6])
    add_out(parser, "listing")
    given = parser.parse_args()
    rows = []
    for count in given.files:
        with tempfile.TemporaryDirectory(prefix="listing-") as folder:
            write(Path(folder), count)
            rows.append(measure(Path(folder), count))
    record(
        "listing",
        given.out,
        title="A corpus of many files, before the first one is read",
        section="Annotation",
        task="all",
        conditions=f"Tiny files of JSON lines, {PER_FOLDER:,} a folder, on a local disk: listed (list "
        "seconds), then also cut into parts with a key of the name, size and time of each file (seconds).",
        rows=measured(rows, {"list_seconds": "s", "seconds": "s", "peak_mb": "MB"}, headline="seconds"),
    )
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
