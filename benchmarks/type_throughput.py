"""Words a second over the number of types, their vectors cached, beside the encoder alone.

Every variant runs in this process, in turn, on the same windows, and is divided by the float32 encoder of the
same round. Weights and type vectors are random; thresholds are moved so that as many spans are found as there
are mentions. `starts_scored` is the fraction of starts (a sub-word and a type) that the bound does not rule
out. The plain form, which scores every span, is measured beside it as far as its scores fit in memory.

    PYTHONPATH=platform python -m benchmarks.type_throughput --json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.nn.functional import normalize

from benchmarks.figures import add_out, here, measured, record
from benchmarks.meter import Meter
from benchmarks.recognizer_batch import Batch, make_batch
from rayner.config import BiEncoderSettings
from rayner.models import span_search
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.encoder import load_encoder, load_tokenizer
from rayner.tasks.recognizer.selection import find_spans, select

MOST_IN_PLAIN_FORM = 1024
MENTIONS = 5
"""A window."""
UNITS = {
    "over_floor": "ratio",
    "plain_over_floor": "ratio",
    "words_per_second": "words/s",
    "peak_mb": "MB",
    "starts_scored": "%",
}
CONDITIONS = """CPU time over that of the bare float32 encoder on the same batch of {windows} windows of
{tokens} sub-words, medians of {rounds} interleaved rounds in one process; random weights and type vectors,
thresholds at which {mentions} spans a window are found. "Plain" scores every span."""


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    rows = []
    for types in options.types:
        row = measure(types, options)
        rows.append(row)
        print("  ".join(f"{k} {v:g}" for k, v in row.items()), file=sys.stderr, flush=True)
    record(
        "type_throughput",
        options.out,
        here(),
        title="The recognizer by the number of types",
        section="Speed",
        task="recognizer",
        conditions=CONDITIONS.format(mentions=MENTIONS, **vars(options)).replace("\n", " "),
        seeds=(1,),
        rows=measured(rows, UNITS, headline="over_floor", where=lambda row: row["types"] == 1024),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


@torch.inference_mode()
def measure(types: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row."""
    random.seed(1)
    torch.manual_seed(1)
    meter = Meter("cpu", "float32")
    batch = make_batch(load_tokenizer(options.encoder), options.windows, options.tokens, 6, meter.device)
    model = BiEncoder(BiEncoderSettings(), load_encoder(options.encoder), None, 6).eval()
    size = model.settings.projection_size
    start, end, span = normalize(torch.randn(3, types, size), dim=2)
    vectors = TypeVectors(start, end, span, None)
    bounds = batch.targets.word_start, batch.targets.word_end
    shift = _usual_shift(model, batch, vectors)
    steps: dict[str, Callable[[], object]] = {
        "floor": lambda: model.text_encoder(batch.ids, batch.mask),
        "blocks": lambda: find_spans(model, batch.ids, batch.mask, vectors, *bounds, shift),
    }
    if types <= MOST_IN_PLAIN_FORM:
        steps["plain"] = lambda: select(model(batch.ids, batch.mask, vectors), *bounds, shift)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    for turn in range(options.rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            spent = meter.seconds(steps[name])
            if turn:
                seconds[name].append(spent)

    def over_floor(name: str) -> float:
        return round(median(s / f for s, f in zip(seconds[name], seconds["floor"], strict=True)), 3)

    row: dict[str, Any] = {"types": types, "over_floor": over_floor("blocks")}
    if "plain" in steps:
        row["plain_over_floor"] = over_floor("plain")
    starts = int(batch.targets.word_start.sum()) * types
    return row | {
        "words_per_second": round(batch.words / median(seconds["blocks"])),
        "starts_scored": _scored_in(steps["blocks"]) / starts,
        "peak_mb": round(meter.peak_mb(steps["blocks"]), 1),
    }


def _scored_in(step: Callable[[], object]) -> int:
    """How many starts are not ruled out by the bound in a step."""
    counts, exactly = [], span_search._scored

    def counted(parts: Any, rows: Any, *rest: Any) -> Any:
        counts.append(len(rows[0]))
        return exactly(parts, rows, *rest)

    span_search._scored = counted
    try:
        step()
    finally:
        span_search._scored = exactly
    return sum(counts)


def _usual_shift(model: BiEncoder, batch: Batch, vectors: TypeVectors) -> float:
    """The shift of the thresholds at which as many spans are found as a text has mentions.

    A sample of the types says where about twice as many are found; of these the best are counted.
    """
    wanted, sampled = MENTIONS * len(batch.ids), 64
    share = max(1.0, len(vectors.span) / sampled)
    part = TypeVectors(*(None if t is None else t[:sampled] for t in vectors))  # type: ignore[arg-type]
    bounds = batch.targets.word_start, batch.targets.word_end
    margins = select(model(batch.ids, batch.mask, part), *bounds, float("-inf")).margin
    about = margins.topk(max(2, round(2 * wanted / share))).values[-1].item()
    found = find_spans(model, batch.ids, batch.mask, vectors, *bounds, about).margin
    return found.topk(min(wanted, len(found))).values[-1].item()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--types", type=int, nargs="+", default=[1, 8, 64, 1024, 10**4, 10**5])
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "type_throughput")
    return parser.parse_args()


if __name__ == "__main__":
    main()
