from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from rayner.data.schema import Document, Mention
from rayner.data.words import find_words
from rayner.tasks.span_tables import scored_spans
from tests.tasks.small import built, corpus, found, recognizer, spans

TASK = recognizer(model={"threshold": "tuned"}, decoding={"overlap": "nested"})


def _f1(model: torch.nn.Module, documents: list[Document], kind: str) -> float:
    right = predicted = gold = 0
    for one, other in zip(found(TASK, model, documents), documents, strict=True):
        a, b = ({s for s in spans(d) if s[2] == kind} for d in (one, other))
        right, predicted, gold = right + len(a & b), predicted + len(a), gold + len(b)
    return 2 * right / max(1, predicted + gold)


def test_no_other_threshold_of_a_type_is_better_on_dev() -> None:
    model, documents = built(TASK).eval(), corpus()
    TASK.fit(model, documents)
    tuned = model.thresholds.clone()
    assert (tuned[:, :2] == -torch.inf).all()
    assert tuned[:, 2].isfinite().all()
    for index, kind in enumerate(TASK.names):
        best = _f1(model, documents, kind)
        for shift in np.linspace(-3, 3, 13):
            moved = tuned.clone()
            moved[index, 2] += shift
            model.set_thresholds(moved)
            assert _f1(model, documents, kind) <= best + 1e-9
        model.set_thresholds(tuned)


def test_a_type_that_dev_lacks_has_the_mean_of_the_others() -> None:
    model = built(TASK).eval()
    TASK.fit(model, [d for d in corpus() if all(m.type != "ORG" for m in d.mentions)])
    per, org, loc = model.thresholds[:, 2].tolist()
    assert org == pytest.approx((per + loc) / 2)
    assert per != loc


def test_dev_documents_without_a_word_tune_nothing() -> None:
    model = built(TASK).eval()
    TASK.fit(model, [Document("d", " ")])
    assert model.thresholds[:, 2].tolist() == [0, 0, 0]


def test_a_span_that_several_windows_hold_counts_once() -> None:
    model = built(TASK).eval()
    text = " ".join(f"w{chr(97 + i % 26)}" for i in range(60))
    words = find_words(text)
    mentions = tuple(Mention(*words[i], "PER") for i in range(60))
    long = Document("d", text, mentions)
    assert len(TASK.windows_of(long)) > 2
    (scored,) = scored_spans(TASK, TASK.predictor(model), [long])
    assert scored.gold.sum() == len(mentions)


def test_what_was_not_annotated_tunes_nothing() -> None:
    model = built(TASK).eval()
    partial = [replace(document, annotated_types=("PER",)) for document in corpus()]
    (scored,) = scored_spans(TASK, TASK.predictor(model), partial)
    assert set(scored.type.tolist()) == {TASK.names.index("PER")}
