from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from rayner.tasks.predict import predict
from rayner.tasks.recognizer.task import RecognizerOptions
from tests.tasks.small import DOCUMENTS, NESTED, TYPES, corpus, found, recognizer, spans, trained

VARIANTS: dict[str, dict[str, Any]] = {
    "several types": {},
    "one type": {"types": TYPES[:1]},
    "nested": {"decoding": {"overlap": "nested"}},
    "shared encoders": {"model": {"encoders": "shared"}},
    # Untrained encoders tell descriptions hardly apart: one type is all that a frozen one can learn.
    "frozen type encoder": {"types": TYPES[:1], "model": {"train_type_encoder": False}},
    "atomic": {"model": {"type_encoding": "atomic"}},
    "keyword": {"model": {"type_encoding": "keyword"}},
    "prototype": {"model": {"type_encoding": "prototype"}},
    "learned thresholds": {"model": {"threshold": "learned"}},
    "tuned thresholds": {"model": {"threshold": "tuned"}},
    "all negatives": {"loss": {"negatives": "all"}},
    "joint": {"decoding": {"joint": True}},
    "joint, tuned": {"decoding": {"joint": True}, "model": {"threshold": "tuned"}},
    "one projection": {"model": {"shared_linear": True}},
    "dropout a span": {"model": {"span_dropout": "span", "dropout": 0.05}},
    "dropout a window": {"model": {"span_dropout": "window", "dropout": 0.05}},
    "no widths": {"model": {"width_embedding_size": 0}},
    "types by turns": {"model": {"types_per_step": 2}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_it_learns_its_training_documents_by_heart(name: str) -> None:
    task = recognizer(**VARIANTS[name])
    documents = corpus((*NESTED, *DOCUMENTS[:2]) if name == "nested" else DOCUMENTS)

    def metrics(model: Any) -> dict[str, Any]:
        return task.predictor(model).evaluate(found(task, model, documents), documents)

    steps = 90 if name == "types by turns" else 60
    model = trained(task, documents, steps, until=lambda model: metrics(model)["f1"] == 1.0)
    assert metrics(model)["f1"] == 1.0, metrics(model)


def test_with_the_threshold_apart_mentions_beat_every_other_span() -> None:
    documents = corpus()
    task = recognizer(loss={"threshold_in_denominator": False}, decoding={"overlap": "nested"})
    model = trained(task, documents)
    everything = predict(task.predictor(model, RecognizerOptions(shift=-1000.0)), documents)
    for document, gold in zip(everything, documents, strict=True):
        for kind in task.names:
            of_type = [m for m in document.mentions if m.type == kind]
            right = [m.margin for m in of_type if (m.start, m.end, kind) in spans(gold)]
            wrong = [m.margin for m in of_type if (m.start, m.end, kind) not in spans(gold)]
            assert wrong
            assert not right or min(right) > max(wrong)


def test_flat_output_keeps_the_best_of_what_overlaps() -> None:
    documents = corpus(NESTED)
    task = recognizer(decoding={"overlap": "nested"})
    model = trained(task, documents)
    flat = predict(task.predictor(model, RecognizerOptions(overlap="flat")), documents)
    for nested, kept in zip(found(task, model, documents), flat, strict=True):
        assert spans(kept) < spans(nested)
        ordered = sorted(kept.mentions, key=lambda m: m.start)
        assert all(a.end <= b.start for a, b in pairwise(ordered))
        margins = {(m.start, m.end, m.type): m.margin for m in nested.mentions}
        for dropped in spans(nested) - spans(kept):
            over = [s for s in spans(kept) if s[0] < dropped[1] and dropped[0] < s[1]]
            assert max(margins[s] for s in over) >= margins[dropped]
