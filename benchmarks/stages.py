"""Where the CPU time of annotating goes: reading, cutting into windows, the model, merging, writing.

    PYTHONPATH=platform python -m benchmarks.stages CHECKPOINT INPUT... --json

Everything runs in this process with one thread; times are of the CPU. `INPUT` is as for `rayner annotate`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.command import call_main
from benchmarks.figures import add_out, measured, record
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.annotation.input_shards import cut_shards, find_sources
from rayner.runtime.annotation.reading import read_blocks
from rayner.tasks.stages import read_pipeline

STAGES = ("prepare", "forward", "finish")
BLOCK_BYTES = 2**20


class TimedModel:
    """A saved model whose predictor counts the seconds of each of its stages."""

    def __init__(self, checkpoint: Path) -> None:
        self._saved = read_pipeline(checkpoint)
        self.version = self._saved.version
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def load(self, device: str | None) -> Any:
        """The predictor; loading is a stage of its own."""
        predictor = self._timed("load", self._saved.load)(device)
        for stage in STAGES:
            setattr(predictor, stage, self._timed(stage, getattr(predictor, stage)))
        return predictor

    def _timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            begin = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.seconds[stage] += time.process_time() - begin

        return timed


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    model = TimedModel(options.checkpoint)
    reading = time.process_time()
    sources, _ = find_sources(options.inputs)
    blocks = [block for shard in cut_shards(sources) for block in read_blocks(shard, BLOCK_BYTES)]
    reading = time.process_time() - reading
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        result = annotate(model, options.inputs, Path(folder) / "out", workers=0)
        spent = time.process_time() - begin
        written = sum(path.stat().st_size for path in Path(folder).rglob("documents-*.parquet"))
    load = model.seconds.pop("load")
    seconds = {"read": reading, **model.seconds}
    seconds["write and count"] = spent - load - sum(seconds.values())
    words, total = result["words"], sum(seconds.values())
    rows = [
        {"stage": stage, "words_per_second": round(words / value), "share": round(value / total, 4)}
        for stage, value in seconds.items()
    ]
    for row in rows:
        print("  ".join(f"{k} {v}" for k, v in row.items()), file=sys.stderr)
    summary = {
        "documents": result["documents"],
        "words": words,
        "words_per_second": round(words / total),
        "blocks": len(blocks),
        "bytes_read_per_word": round(sum(source.size for source in sources) / words, 2),
        "bytes_written_per_word": round(written / words, 2),
        "mentions_per_word": round(result["mentions"] / words, 4),
    }
    print(json.dumps(summary), file=sys.stderr)
    record(
        "stages",
        options.out,
        title="Where the time of annotating goes",
        section="Annotation",
        task="recognizer",
        conditions=f"One process, one thread, CPU time: {summary['documents']:,} documents, {words:,} words.",
        rows=(
            *measured(rows, {"words_per_second": "words/s", "share": "%"}),
            *measured(
                [{"stage": "all", "words_per_second": summary["words_per_second"]}],
                {"words_per_second": "words/s"},
            ),
        ),
    )
    if options.json:
        print(json.dumps({"rows": rows, **summary}))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="RUN/best")
    parser.add_argument("inputs", nargs="+", help="files or folders")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "stages")
    return parser.parse_args()


if __name__ == "__main__":
    call_main(main)
