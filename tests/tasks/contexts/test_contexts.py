"""Documents that bring contexts: they are read with the document, and nothing is found in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import WindowSettings
from rayner.data.schema import Context, Document
from rayner.tasks.document_windows import SPECIAL_TOKENS, text_windows
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.task import RecognizerOptions
from tests.tasks.small import found, marked, recognizer, spans, tagger, trained

WINDOWS = {"length": 40, "overlap": 10, "context": 12}
PERSON, PLACE = Context("She is a poet."), Context("It is a river.", before=False)

# Only the context tells which of the two it is.
DOCUMENTS = [
    replace(marked(f"[{kind}:Jordan] came {when}."), contexts=(context,), document_id=f"{kind}{when}")
    for kind, context in (("PER", PERSON), ("LOC", PLACE))
    for when in ("early", "late", "today")
]


@pytest.mark.parametrize("make", [recognizer, tagger])
def test_what_only_the_context_tells_is_learned(make: Any) -> None:
    task = make(windows=WINDOWS)
    model = trained(task, DOCUMENTS, steps=80)
    assert [spans(d) for d in found(task, model, DOCUMENTS)] == [spans(d) for d in DOCUMENTS]
    without = [replace(d, contexts=()) for d in DOCUMENTS]
    answers = [spans(d) for d in found(task, model, without)]
    assert answers[:3] == answers[3:], "without contexts the texts are equal"


@pytest.mark.parametrize("make", [recognizer, tagger])
def test_settings_without_room_for_contexts_do_not_read_them(make: Any) -> None:
    task = make()
    model = trained(task, DOCUMENTS[:3], steps=20)
    bare = [replace(d, contexts=()) for d in DOCUMENTS]
    assert [d.mentions for d in found(task, model, DOCUMENTS)] == [
        d.mentions for d in found(task, model, bare)
    ]


def test_nothing_is_found_in_a_context() -> None:
    task = recognizer(windows=WINDOWS, decoding={"overlap": "nested"})
    model = trained(task, DOCUMENTS, steps=5)
    predictor = task.predictor(model, RecognizerOptions(shift=-1000.0))
    long = Document("d", "One two three. " * 20, contexts=(PERSON, PLACE))
    (answer,) = predict(predictor, [long])
    words = {(m.start, m.end) for m in answer.mentions}
    assert len({start for start, _ in words}) == 80
    assert all(0 <= start < end <= len(long.text) for start, end in words)


SEPARATOR = ord("|")


def tokenize(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """A sub-word a character that is no space."""
    places = [i for i, c in enumerate(text) if not c.isspace()]
    return [ord(text[i]) for i in places], [(i, i + 1) for i in places]


@given(
    st.text("ab ", min_size=1, max_size=120),
    st.lists(
        st.builds(Context, st.text("xyz ", max_size=30), st.floats(0, 1) | st.none(), st.booleans()),
        max_size=5,
    ),
    st.integers(0, 20),
)
def test_windows_with_contexts(text: str, contexts: list[Context], budget: int) -> None:
    settings = WindowSettings(length=40, overlap=5, context=budget)
    windows = text_windows(Document("d", text, contexts=tuple(contexts)), settings, tokenize, 0, SEPARATOR)
    seen = set()
    for window in windows:
        row, own = window.row, window.span.end - window.span.begin
        assert len(window) == len(row["ids"]) + SPECIAL_TOKENS <= settings.length
        around = len(window.before) + len(window.after)
        assert around <= budget
        assert own + around == len(row["ids"]) == len(row["first"]) == len(row["last"])
        for place in range(len(row["ids"])):
            subword = window.subword_at(place + 1)
            inside = window.span.begin <= subword < window.span.end
            assert window.place(subword) == window.position(subword) - 1 == place
            assert inside or not (row["first"][place] or row["last"][place])
            if inside:
                assert row["ids"][place] == window.subwords.ids[subword]
                seen.add(subword)
        assert [row["first"][p - 1] for p in window.word_positions] == [True] * len(window.words)
        for side in (window.before, window.after[::-1]):
            if len(side):
                assert np.flatnonzero(side == SEPARATOR).tolist() == [len(side) - 1] != [0]
        room = budget - len({context.before for context in contexts})
        for context in contexts:
            ids = tokenize(context.text)[0]
            if 0 < len(ids) <= room and context.score == max((c.score or 0) for c in contexts) > 0:
                side = list(window.before if context.before else window.after)
                others = [c for c in contexts if c is not context and (c.score or 0) == context.score]
                assert others or "".join(map(chr, ids)) in "".join(map(chr, side))
    assert not windows or seen == set(range(len(windows[0].subwords)))


def test_of_a_context_that_alone_is_too_long_the_part_beside_the_document_is_read() -> None:
    settings = WindowSettings(length=40, overlap=5, context=5)
    for before, kept in ((True, "wxyz|"), (False, "|stuv")):
        document = Document("d", "ab", contexts=(Context("stuvwxyz", 1.0, before),))
        (window,) = text_windows(document, settings, tokenize, 0, SEPARATOR)
        side = window.before if before else window.after
        assert "".join(map(chr, side)) == kept


def test_a_context_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="context 30 leaves a window of 32 no room for the text"):
        WindowSettings(length=32, overlap=0, context=30)
    smallest = WindowSettings(length=32, overlap=0, context=29)
    filled = Document("d", "ab", contexts=(Context("x" * 40, 1.0),))
    assert [len(w) for w in text_windows(filled, smallest, tokenize, 0, SEPARATOR)] == [32, 32]
    with pytest.raises(ValueError, match="at most half of the window beside a context of 30, 4"):
        WindowSettings(length=40, overlap=5, context=30)
