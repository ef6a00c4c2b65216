from __future__ import annotations

import pyarrow as pa
import pytest

from rayner.data.schema import MENTION_TYPE, Document, Mention, document_from_row, document_to_row
from rayner.tasks.document_windows import Found
from rayner.tasks.recognizer.predictor import Recognizer, without_overlaps
from tests.tasks.small import built, recognizer

NARROW, WIDE = 38.0, 60.0
"""Margins whose logistic is exactly 1.0 in double precision: only the margins tell them apart."""


@pytest.mark.parametrize("margins", [(NARROW, WIDE), (WIDE, NARROW), (-70.0, -65.0)])
def test_of_overlapping_mentions_the_one_with_the_larger_margin_is_kept(margins: tuple[float, float]) -> None:
    first, second = (
        Mention(start, start + 9, "PER", score=1.0, margin=margin)
        for start, margin in zip((0, 4), margins, strict=True)
    )
    best = max(first, second, key=lambda m: m.margin or 0.0)
    assert without_overlaps([first, second]) == without_overlaps([second, first]) == [best]


@pytest.mark.parametrize("margins", [(NARROW, WIDE), (WIDE, NARROW)])
def test_the_margin_decides_and_is_stored_where_scores_are_equal(margins: tuple[float, float]) -> None:
    task = recognizer(decoding={"overlap": "flat"})
    predictor: Recognizer = task.predictor(built(task))
    document = Document("d", "Ada Lovelace Byron")
    windows = predictor.prepare(document)
    (window,) = windows
    edges = [window.place(int(place)) for place in (*window.subwords.first, len(window.subwords))]
    # "Ada Lovelace" and "Lovelace Byron".
    found = [
        Found(0, edges[a], edges[b] - 1, margin)
        for (a, b), margin in zip(((0, 2), (1, 3)), margins, strict=True)
    ]
    answer = predictor.finish(document, windows, [found])
    (mention,) = answer.mentions
    text = document.text[mention.start : mention.end]
    assert text == ("Ada Lovelace" if margins[0] == WIDE else "Lovelace Byron")
    assert (mention.score, mention.margin) == (1.0, WIDE)
    stored = pa.array([document_to_row(answer)["mentions"]], pa.list_(MENTION_TYPE)).to_pylist()
    assert stored[0][0]["margin"] == WIDE
    again = document_from_row({**document_to_row(answer), "mentions": stored[0]})
    assert again.mentions[0].margin == WIDE
