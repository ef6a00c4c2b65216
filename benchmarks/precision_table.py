"""What a recognizer costs and finds in float32, bfloat16 and int8 on a CPU, and in other runtimes.

Each answers the same windows in this process, in turn, and is divided by the float32 encoder of the same
round. int8 is dynamic: weights are rounded once, channel by channel, and activations in each product
(torch.ao). With `--runtimes`, ONNX Runtime and OpenVINO too, which must be installed (encoder_runtimes.py).

    PYTHONPATH=platform python -m benchmarks.precision_table --checkpoint RUN/best --corpus CORPUS --runtimes
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from benchmarks.encoder_runtimes import RUNTIMES, InRuntime, export
from benchmarks.figures import add_out, here, measured, record
from benchmarks.meter import Meter
from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.models.precision_choice import encoders_of
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.document_windows import TextWindow
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.predictor import Recognizer

PRECISIONS = ("float32", "bfloat16", "int8")
UNITS = {
    "over_floor": "ratio",
    "encoder_over_floor": "ratio",
    "weights_mb": "MB",
    "peak_mb": "MB",
    "f1": "%",
    "precision": "%",
    "recall": "%",
}
CONDITIONS = """CPU time of a batch of {tokens} sub-words over that of its bare float32 encoder, medians of
{rounds} interleaved rounds in one process, one thread; weights of the encoders as they lie in memory; scores
on {documents} documents of {corpus}, by {checkpoint}."""


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    documents = [d for path in options.corpus for d in read_corpus(path).documents]
    names = (*PRECISIONS, *(RUNTIMES if options.runtimes else ()))
    rows = measure(names, options.checkpoint, documents, options.tokens, options.rounds)
    told = {
        "tokens": options.tokens,
        "rounds": options.rounds,
        "documents": len(documents),
        "corpus": ", ".join("/".join(path.parts[-2:]) for path in options.corpus),
        "checkpoint": "/".join(options.checkpoint.parts[-2:]),
    }
    record(
        "precision_table",
        options.out,
        here(),
        title="The recognizer in three precisions, and in other runtimes",
        section="Speed",
        task="recognizer",
        conditions=CONDITIONS.format(**told).replace("\n", " "),
        seeds=(1,),
        rows=measured(rows, UNITS, headline="over_floor"),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


@torch.inference_mode()
def measure(
    names: Sequence[str], checkpoint: Path, documents: Sequence[Document], tokens: int, rounds: int
) -> list[dict[str, Any]]:
    """A row for each precision and runtime."""
    with TemporaryDirectory() as folder:
        predictors = {name: loaded(checkpoint, name, Path(folder)) for name in names}
    windows = _batch(predictors["float32"], documents, tokens)
    meter = Meter("cpu", "float32")
    steps: dict[str, Callable[[], object]] = {}
    for name, predictor in predictors.items():
        ids, mask, *_ = predictor._inputs(windows)
        encode = predictor._model.encode_text
        steps[f"{name} encoder"] = lambda encode=encode, ids=ids, mask=mask: encode(ids, mask)
        steps[name] = lambda predictor=predictor: predictor.forward(windows)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    order = list(steps)
    for turn in range(rounds + 1):
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            spent = meter.seconds(steps[name])
            if turn:
                seconds[name].append(spent)

    def over_floor(name: str) -> float:
        floor = seconds["float32 encoder"]
        return round(median(s / f for s, f in zip(seconds[name], floor, strict=True)), 3)

    rows = []
    for name, predictor in predictors.items():
        answers = list(predict(predictor, documents))
        scores = predictor.evaluate(answers, documents)
        rows.append(
            {
                "computes in": name,
                "over_floor": over_floor(name),
                "encoder_over_floor": over_floor(f"{name} encoder"),
                "weights_mb": None if name in RUNTIMES else round(_megabytes(predictor._model), 1),
                "peak_mb": round(meter.peak_mb(steps[name]), 1),
                **{key: scores[key] for key in ("precision", "recall", "f1")},
            }
        )
        print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), file=sys.stderr, flush=True)
    return rows


def loaded(checkpoint: Path, precision: str, folder: Path) -> Recognizer:
    """A checkpoint as it answers in a precision, or in a runtime, which takes its encoder from the folder."""
    found = load_checkpoint(checkpoint, "cpu", "bfloat16" if precision == "bfloat16" else "float32")
    # Types are encoded before the weights are rounded: once, and so for free.
    predictor = found.predictor()
    assert isinstance(predictor, Recognizer)
    if precision == "int8":
        for encoder in encoders_of(found.model):
            encoder.model = in_int8(encoder.model)
    if precision in RUNTIMES:
        encoder = next(encoders_of(found.model))
        encoder.model = InRuntime(encoder.model, RUNTIMES[precision](export(encoder.model, folder)))
    return predictor


def in_int8(model: nn.Module) -> nn.Module:
    """The model with its linear layers in int8: weights by channel, activations as they come."""
    from torch.ao.quantization import quantize_dynamic
    from torch.ao.quantization.qconfig import per_channel_dynamic_qconfig

    return quantize_dynamic(model, {nn.Linear: per_channel_dynamic_qconfig}, dtype=torch.qint8)


def _batch(predictor: Recognizer, documents: Sequence[Document], tokens: int) -> list[TextWindow]:
    """Windows of the corpus, the longest first, as many as the tokens hold when padded."""
    windows = sorted((w for d in documents for w in predictor.prepare(d)), key=predictor.length_of)
    longest = predictor.length_of(windows[-1])
    return windows[-max(1, tokens // longest) :]


def _megabytes(model: nn.Module) -> float:
    """What the encoders' weights take up."""
    total = 0
    for encoder in encoders_of(model):
        for value in encoder.state_dict().values():
            # Packed weights of a linear layer come as (weight, bias).
            for tensor in value if isinstance(value, tuple) else (value,):
                if isinstance(tensor, torch.Tensor):
                    total += tensor.numel() * tensor.element_size()
    return total / 2**20


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runtimes", action="store_true", help="ONNX Runtime and OpenVINO too")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "precision_table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
