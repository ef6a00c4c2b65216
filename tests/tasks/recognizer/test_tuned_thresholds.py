from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from rayner.data.schema import UNKNOWN, Document, Mention
from rayner.data.words import find_words
from rayner.errors import RecipeError
from rayner.metrics.spans import score_spans
from rayner.metrics.thresholds import CandidateSpans, best_shift, candidates_from_columns, threshold_curve
from rayner.tasks.predict import predict
from rayner.tasks.recognizer import dev_spans
from rayner.tasks.recognizer.dev_spans import scored_spans, span_tables
from rayner.tasks.recognizer.task import RecognizerOptions
from tests.tasks.small import built, corpus, found, marked, recognizer, spans, trained

TASK = recognizer(model={"threshold": "tuned"}, decoding={"overlap": "nested"})


def _f1(model: torch.nn.Module, documents: list[Document], kind: str) -> float:
    right = predicted = gold = 0
    for one, other in zip(found(TASK, model, documents), documents, strict=True):
        a, b = ({s for s in spans(d) if s[2] == kind} for d in (one, other))
        right, predicted, gold = right + len(a & b), predicted + len(a), gold + len(b)
    return 2 * right / max(1, predicted + gold)


UNREACHABLE = (
    "Half[LOC:Lond]on sent [PER:Ad]a to Par[LOC:is] and to [LOC:Paris].",
    "They read [ORG:the very long name of a club that nobody ever could remember] aloud to [PER:Curie].",
    "[LOC:Paris], Re[LOC:mak]e and Lon[PER:do]n.",
)
"""Mentions that begin or end within words, and one wider than `max_span_width`."""


@pytest.mark.parametrize("texts", [[], UNREACHABLE])
def test_no_other_threshold_of_a_type_is_better_on_dev(
    texts: list[str],
) -> None:
    model = built(TASK).eval()
    documents = [*corpus(), *(marked(text, f"u{i}") for i, text in enumerate(texts))]
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


def test_the_curve_over_candidates_is_what_the_table_of_scores_says() -> None:
    documents = [*corpus(), *(marked(text, f"u{i}") for i, text in enumerate(UNREACHABLE))]
    documents.append(replace(documents[0], document_id="partial", annotated_types=("PER",)))
    # Of each of its words nobody knows what it is.
    unknown = [Mention(start, end, UNKNOWN) for start, end in find_words(documents[1].text)]
    marked_so = (*documents[1].mentions, *unknown)
    documents.append(replace(documents[1], document_id="unknown", mentions=marked_so))
    task = recognizer(decoding={"overlap": "nested"})
    model = trained(task, documents)
    for shift in (0.0, 2.0):
        predictor = task.predictor(model, RecognizerOptions(shift=shift))
        scores = score_spans(documents, list(predict(predictor, documents)), task.names)
        table = span_tables(task, predictor, documents, 1)["candidates"]
        columns = [table[name].to_numpy() for name in ("type", "margin", "gold")]
        support = {name: row["support"] for name, row in scores["per_type"].items()}
        curve = threshold_curve(candidates_from_columns(*columns, support), np.array([shift]))
        assert scores["f1"] > 0.2
        for name in ("precision", "recall", "f1"):
            assert curve[name][0] == pytest.approx(scores[name])


def test_a_type_that_dev_lacks_has_the_mean_of_the_others() -> None:
    model = built(TASK).eval()
    TASK.fit(model, [d for d in corpus() if all(m.type != "ORG" for m in d.mentions)])
    per, org, loc = model.thresholds[:, 2].tolist()
    assert org == pytest.approx((per + loc) / 2)
    assert per != loc


def test_what_can_never_be_right_tunes_nothing() -> None:
    model = built(TASK).eval()
    documents = [d for d in corpus() if all(m.type != "ORG" for m in d.mentions)]
    TASK.fit(model, [*documents, marked("They left Ac[ORG:me] and the Society.")])
    per, org, loc = model.thresholds[:, 2].tolist()
    assert org == pytest.approx((per + loc) / 2)


def test_mentions_too_wide_to_be_found_count_as_missed() -> None:
    model = built(TASK, seed=2).eval()
    wide = ["".join(f"[{kind}:" for _ in range(8)) + " so" * 9 + "].  so" * 8 for kind in TASK.names]
    documents = [*corpus(), *(marked(text, f"w{i}") for i, text in enumerate(wide))]
    TASK.fit(model, documents)
    tuned = model.thresholds[:, 2].tolist()
    model.set_thresholds(torch.zeros(3, 3))
    scored = scored_spans(TASK, TASK.predictor(model), documents)
    kinds, scores, _, gold = (np.concatenate(column) for column in zip(*scored, strict=True))
    for index, name in enumerate(TASK.names):
        support = len({(d.document_id, *s) for d in documents for s in spans(d) if s[2] == name})
        own = kinds == index
        assert gold[own].sum() == support - 8
        assert tuned[index] == pytest.approx(
            best_shift(CandidateSpans(scores[own], gold[own], support))["shift"]
        )


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


def test_documents_are_scored_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev_spans, "DOCUMENTS_AT_ONCE", 2)
    predictor, read = TASK.predictor(built(TASK).eval()), []

    def reading() -> Iterator[Document]:
        for document in corpus():
            read.append(document)
            yield document

    assert [len(read) for _ in scored_spans(TASK, predictor, reading())] == [2, 4, 5]


def test_what_was_not_annotated_tunes_nothing() -> None:
    model = built(TASK).eval()
    partial = [replace(document, annotated_types=("PER",)) for document in corpus()]
    (scored,) = scored_spans(TASK, TASK.predictor(model), partial)
    assert set(scored.type.tolist()) == {TASK.names.index("PER")}


def test_thresholds_that_nothing_trains_or_fits_are_refused() -> None:
    loss = {"beta": 1, "threshold_in_denominator": False}
    moved = {"fraction": 0.1, "thresholds": True}
    for values in ({"model": {"threshold": "learned"}}, {"calibration": moved}, {}):
        with pytest.raises(RecipeError, match=r"loss\.beta 1 with .* trains no threshold") as caught:
            recognizer(loss=loss, **values)
        assert "\n" not in str(caught.value)
    recognizer(loss={"beta": 1})
    recognizer(model={"threshold": "tuned"}, loss=loss)
    recognizer(added={"checkpoint": "c", "version": "v", "types": ["LOC"]}, loss=loss)
