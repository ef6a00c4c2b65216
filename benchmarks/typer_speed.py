"""What the tagger and the typer cost beyond their encoder when they answer.

As in `recognizer_speed`: every variant runs in this process, in turn, on the same windows, and is divided by
the floor of the same round, the encoder alone on the same batch. An answer begins with prepared windows and
ends with documents: padding, encoder, head, decoding. Models are untrained; their thresholds are such that
they find as many mentions, and three types a mention, as documents have.

    PYTHONPATH=platform python -m benchmarks.typer_speed --json
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.figures import add_out, here, measured, record
from benchmarks.meter import Meter
from benchmarks.recognizer_batch import TEXT
from benchmarks.recognizer_speed import Variant, interleave
from rayner.data.schema import Document, Mention
from rayner.models.encoder import load_encoder
from rayner.tasks.registry import parse_recipe, train_task

MENTIONS = 5
"""In a window."""
TYPES_OF_A_MENTION = 3
UNITS = {"inference_over_floor": "ratio", "inference_peak_mb": "MB", "words_per_second": "words/s"}
CONDITIONS = """CPU time (on a GPU: of the clock) of an answer, from windows to documents, over that of the
bare encoder on the same batch of {windows} windows with {mentions} mentions each, medians of {rounds}
interleaved rounds in one process. Untrained models, with thresholds at which they find as many mentions, or
{types} types a mention."""


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    variants: list[tuple[str, int, dict[str, Any]]] = [
        ("tagger, greedy", 8, {"task": "tagger"}),
        ("tagger, constrained", 8, {"task": "tagger", "decoding": "constrained"}),
        ("tagger, crf", 8, {"task": "tagger", "decoding": "crf"}),
    ]
    for types in options.types:
        for head in ("linear", "labels"):
            variants.append((f"typer, {head}", types, {"task": "typer", "model": {"head": head}}))
    rows = []
    for name, types, values in variants:
        rows.append(
            {"model": name, "types": types, "tokens": options.tokens, **measure(values, types, options)}
        )
        print("  ".join(f"{k} {v}" for k, v in rows[-1].items()), file=sys.stderr, flush=True)
    told = {**vars(options), "mentions": MENTIONS, "types": TYPES_OF_A_MENTION}
    record(
        "typer_speed",
        options.out,
        here(options.device),
        title="The tagger and the typer beside their encoder",
        section="Speed",
        task="tagger and typer",
        conditions=CONDITIONS.format(**told).replace("\n", " "),
        seeds=(1,),
        rows=measured(rows, UNITS, headline="inference_over_floor"),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


def measure(values: dict[str, Any], types: int, options: argparse.Namespace) -> dict[str, float]:
    """One row: the answers of a task with so many types."""
    random.seed(1)
    torch.manual_seed(1)
    meter = Meter(options.device, "float32")
    task, model = _model(values, types, options)
    model.to(meter.device).eval()
    given = _documents(task.tokenizer, options.windows, options.tokens)
    prepared = [task.predictor(model).prepare(document) for document in given]
    windows = [window for of_document in prepared for window in of_document]
    assert len(windows) == len(given), "each document is a window"
    with torch.inference_mode():
        _set_thresholds(task, model, windows)
        predictor = task.predictor(model)
        floor = load_encoder(options.encoder).to(meter.device).eval()
        ids, mask = (part.to(meter.device) for part in task.padded([window.ids for window in windows]))

        def answer() -> list[Document]:
            scores = predictor.forward(windows)
            triples = zip(given, prepared, scores, strict=True)
            return [predictor.finish(document, of, [score]) for document, of, score in triples]

        variants = [Variant("floor", lambda: floor(ids, mask), meter), Variant("answer", answer, meter)]
        ratios, seconds = interleave(variants, options.rounds)
        peak = meter.peak_mb(answer)
    words = sum(len(document.text.split()) for document in given)
    return {
        "inference_over_floor": round(ratios["answer"], 3),
        "inference_peak_mb": round(peak, 1),
        "words_per_second": round(words / seconds["answer"]),
    }


def _model(values: dict[str, Any], types: int, options: argparse.Namespace) -> tuple[Any, Any]:
    names = [f"kind_{number}" for number in range(types)]
    recipe = {
        "encoder": options.encoder,
        "corpus": {"train": ["nowhere"]},
        "windows": {"length": options.tokens, "overlap": options.tokens // 4},
        **values,
    }
    if values["task"] == "tagger":
        recipe["types"] = [{"name": name, "description": name} for name in names]
    task: Any = train_task(parse_recipe(recipe, "benchmark"))
    if values["task"] == "typer":
        task.vocabulary = dict.fromkeys(names, 1)
    return task, task.build()


def _set_thresholds(task: Any, model: Any, windows: Sequence[Any]) -> None:
    """So that an untrained model finds as much as there is."""
    mentions = MENTIONS * len(windows)
    device = next(model.parameters()).device
    ids, mask = (part.to(device) for part in task.padded([window.ids for window in windows]))
    if hasattr(model, "thresholds"):
        rows = torch.arange(len(windows)).repeat_interleave(MENTIONS)
        places = 1 + torch.cat([torch.from_numpy(window.places) for window in windows]).long()
        scores = model(ids, mask, rows.to(device), places.to(device)).flatten()
        model.thresholds.fill_(scores.topk(TYPES_OF_A_MENTION * mentions).values[-1])
    else:
        logits = model(ids, mask)
        margins = (logits[..., 1:].amax(-1) - logits[..., 0]).flatten()
        model.linear.bias[0] += margins.topk(mentions).values[-1]


def _documents(tokenizer: Any, number: int, tokens: int) -> list[Document]:
    """Texts that fill a window each, with random mentions of one word."""
    words = TEXT.split()
    made = []
    for index in range(number):
        first = random.randrange(len(words))
        taken: list[str] = []
        while len(tokenizer(" ".join([*taken, words[(first + len(taken)) % len(words)]]))[0]) <= tokens - 2:
            taken.append(words[(first + len(taken)) % len(words)])
        text = " ".join(taken)
        places = sorted(random.sample([match.span() for match in re.finditer(r"\w+", text)], MENTIONS))
        made.append(Document(str(index), text, tuple(Mention(start, end, "x") for start, end in places)))
    return made


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--types", type=int, nargs="+", default=[100, 10_331], help="types of the typer")
    parser.add_argument("--tokens", type=int, default=128, help="sub-words in a window")
    parser.add_argument("--windows", type=int, default=16, help="in a batch")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "typer_speed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
