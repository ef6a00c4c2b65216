"""What the recognizer costs beyond its encoder, in training and in inference.

Every variant runs in this process, in turn, on the same batch, and is divided by the floor of the same round:
the encoder alone in float32, forward (inference) or forward, backward and optimizer (training). The ratios
are medians over the rounds, of CPU time (on a GPU: wall time between two synchronizations). A token
classification head of transformers on the same encoder is measured beside it.

    PYTHONPATH=platform python -m benchmarks.recognizer_speed --json
    PYTHONPATH=platform python -m benchmarks.recognizer_speed --device cuda --precision bfloat16
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.figures import add_out, here, measured, record
from benchmarks.meter import Meter
from benchmarks.recognizer_batch import Batch, make_batch
from rayner.config import BiEncoderSettings, ContrastSettings
from rayner.losses.span_contrast import loss_weights, span_contrast
from rayner.models.bi_encoder import BiEncoder, TypeVectors
from rayner.models.encoder import load_encoder, load_tokenizer
from rayner.models.type_inputs import TypeInputs
from rayner.tasks.recognizer.selection import find_spans, select

LOSS = ContrastSettings()
UNITS = {
    "inference_over_floor": "ratio",
    "training_over_floor_cached_types": "ratio",
    "training_over_floor": "ratio",
    "token_classification_inference_over_floor": "ratio",
    "token_classification_training_over_floor": "ratio",
    "peak_mb": "MB",
    "inference_peak_mb": "MB",
    "words_per_second": "words/s",
    "training_words_per_second": "words/s",
}
CONDITIONS = """CPU time (on a GPU: of the clock) of a step over that of the bare encoder in float32
(training: forward, backward, AdamW) on the same batch of {windows} windows, medians of {rounds} interleaved
rounds in one process. "Token classification" is the head of transformers on the same encoder. A training
step draws at most {types_per_step} types."""


class Variant(NamedTuple):
    """Something to time: its name in the row, one step of it, and what it is timed in."""

    name: str
    step: Callable[[], object]
    meter: Meter


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    rows = []
    for tokens in options.tokens:
        for types in options.types:
            row = measure(types, tokens, options)
            rows.append(row)
            print("  ".join(f"{k} {v:g}" for k, v in row.items()), file=sys.stderr, flush=True)
    record(
        "recognizer_speed",
        options.out,
        here(options.device),
        title=f"The recognizer beside its encoder{'' if options.device == 'cpu' else ', on a GPU'}",
        section="Speed",
        task="recognizer",
        conditions=CONDITIONS.format(**vars(options)).replace("\n", " "),
        precision=options.precision,
        seeds=(1,),
        rows=measured(rows, UNITS, headline="inference_over_floor", where=lambda row: row["tokens"] == 128),
    )
    if options.json:
        print(json.dumps({"rows": rows}))


def measure(types: int, tokens: int, options: argparse.Namespace) -> dict[str, float]:
    """One row: `types` types against `windows` windows of `tokens` sub-words."""
    random.seed(1)
    torch.manual_seed(1)
    meter, exact = Meter(options.device, options.precision), Meter(options.device, "float32")
    batch = make_batch(load_tokenizer(options.encoder), options.windows, tokens, types, meter.device)

    cached, trained = (_recognizer(options.encoder, types, train, meter) for train in (False, True))
    floor = load_encoder(options.encoder).to(meter.device)
    tagger = _token_classifier(options.encoder, types, meter)
    with torch.no_grad():
        kept = batch.types._replace(states=cached.type_states(batch.types))

    sampled = min(types, options.types_per_step)
    training = [
        _training("floor", floor, lambda: floor(batch.ids, batch.mask).float().square().mean(), exact),
        _training("cached_types", cached, lambda: _loss(cached, batch, kept, None), meter),
        _training("trained_types", trained, lambda: _sampled_loss(trained, batch, sampled), meter),
        _training("token_classification", tagger, lambda: _tagging_loss(tagger, batch), meter),
    ]
    train_ratios, train_seconds = interleave(training, options.rounds)
    peak = meter.peak_mb(training[1].step)

    for model in (floor, cached, tagger):
        model.eval()
    with torch.inference_mode():
        vectors = cached.encode_types(kept)
        shift = _usual_shift(cached, batch, vectors)

        def recognize() -> None:
            bounds = batch.targets.word_start, batch.targets.word_end
            find_spans(cached, batch.ids, batch.mask, vectors, *bounds, shift)

        inference = [
            Variant("floor", lambda: floor(batch.ids, batch.mask), exact),
            Variant("recognizer", recognize, meter),
            Variant("token_classification", lambda: _logits(tagger, batch).argmax(-1), meter),
        ]
        ratios, seconds = interleave(inference, 2 * options.rounds)
        peak_inference = meter.peak_mb(recognize)
    return {
        "types": types,
        "tokens": tokens,
        "inference_over_floor": round(ratios["recognizer"], 3),
        "training_over_floor": round(train_ratios["trained_types"], 3),
        "training_over_floor_cached_types": round(train_ratios["cached_types"], 3),
        "peak_mb": round(peak, 1),
        "inference_peak_mb": round(peak_inference, 1),
        "types_per_step": sampled,
        "token_classification_inference_over_floor": round(ratios["token_classification"], 3),
        "token_classification_training_over_floor": round(train_ratios["token_classification"], 3),
        "words_per_second": round(batch.words / seconds["recognizer"]),
        "training_words_per_second": round(batch.words / train_seconds["trained_types"]),
    }


def interleave(variants: list[Variant], rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median ratios to the first variant, and median seconds, by name; one round before is not counted."""
    seconds: dict[str, list[float]] = {v.name: [] for v in variants}
    for turn in range(rounds + 1):
        for variant in variants[turn % len(variants) :] + variants[: turn % len(variants)]:
            spent = variant.meter.seconds(variant.step)
            if turn:
                seconds[variant.name].append(spent)
    floor = seconds[variants[0].name]
    ratios = {n: median(s / f for s, f in zip(spent, floor, strict=True)) for n, spent in seconds.items()}
    return ratios, {name: median(spent) for name, spent in seconds.items()}


def _recognizer(encoder: str, types: int, train_type_encoder: bool, meter: Meter) -> BiEncoder:
    settings = BiEncoderSettings(train_type_encoder=train_type_encoder)
    return BiEncoder(settings, load_encoder(encoder), load_encoder(encoder), types).to(meter.device)


def _usual_shift(model: BiEncoder, batch: Batch, vectors: TypeVectors) -> float:
    """The shift of the thresholds at which an untrained model finds as many spans as there are mentions."""
    scores = model(batch.ids, batch.mask, vectors)
    margins = select(scores, batch.targets.word_start, batch.targets.word_end, float("-inf")).margin
    return margins.topk(len(batch.targets.gold)).values[-1].item()


def _training(name: str, model: nn.Module, loss: Callable[[], Tensor], meter: Meter) -> Variant:
    model.train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-7, fused=True)

    def step() -> None:
        with meter.autocast():
            value = loss()
        optimizer.zero_grad(set_to_none=True)
        value.backward()
        optimizer.step()

    return Variant(name, step, meter)


def _loss(model: BiEncoder, batch: Batch, types: TypeInputs, type_ids: Tensor | None) -> Tensor:
    scores = model(batch.ids, batch.mask, types, None, type_ids)
    sums, weights = span_contrast(scores, batch.targets, LOSS), loss_weights(LOSS)
    mentions, pairs = len(batch.targets.gold), batch.targets.known.numel()
    terms = [weights[k] * v / (pairs if k.endswith("threshold") else mentions) for k, v in sums.items()]
    return torch.stack(terms).sum()


def _sampled_loss(model: BiEncoder, batch: Batch, types: int) -> Tensor:
    chosen = torch.randperm(batch.targets.known.shape[1])[:types].sort().values.to(batch.ids.device)
    part = batch.of_types(chosen)
    return _loss(model, part, part.types, chosen)


def _token_classifier(encoder: str, types: int, meter: Meter) -> Any:
    from transformers import AutoModelForTokenClassification

    backbone = load_encoder(encoder).model
    backbone.config.num_labels = 2 * types + 1
    model = AutoModelForTokenClassification.from_config(backbone.config, dtype=torch.float32)
    getattr(model, model.base_model_prefix).load_state_dict(backbone.state_dict())
    return model.to(meter.device)


def _logits(model: Any, batch: Batch) -> Tensor:
    return model(input_ids=batch.ids, attention_mask=batch.mask.long()).logits


def _tagging_loss(model: Any, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(_logits(model, batch).flatten(0, 1).float(), batch.labels.flatten())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--types", type=int, nargs="+", default=[1, 4, 8, 64])
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 256], help="sub-words in a window")
    parser.add_argument("--windows", type=int, default=8, help="in a batch")
    parser.add_argument("--types-per-step", type=int, default=32, help="types drawn for a training step")
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "float16"], default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    add_out(parser, "recognizer_speed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
