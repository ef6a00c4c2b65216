from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

from rayner.config import SpanDecoding
from rayner.data.batches import TOKENS_PER_BATCH
from rayner.data.schema import Document
from rayner.data.sections import OVERLAP, SIZE
from rayner.data.words import find_words
from rayner.tasks.document_windows import Found, TextWindow
from rayner.tasks.predict import pieces_of, predict, predict_and_count
from rayner.tasks.recognizer.predictor import Recognizer
from tests.tasks.small import recognizer

TASK = recognizer()


class FindsLongWords(Recognizer):
    """Finds each word of more than five letters; needs no model."""

    def __init__(self) -> None:
        self._task = TASK
        self._decoding, self._calibration = SpanDecoding(overlap="nested"), None
        self.names, self.tokens_per_batch = ["PER"], TOKENS_PER_BATCH

    def forward(self, windows: Sequence[TextWindow]) -> list[list[Found]]:
        return [list(self._found(window)) for window in windows]

    def _found(self, window: TextWindow) -> list[Found]:
        subwords, (begin, end) = window.subwords, window.span
        words = sorted({int(w) for w in subwords.word_of[begin:end]})
        places = [(int(subwords.first[w]), int(subwords.last[w]), subwords.words[w]) for w in words]
        whole = [(a, b, s) for a, b, s in places if begin <= a and b < end]
        at = window.position
        return [Found(0, at(a), at(b), 1.0) for a, b, (start, stop) in whole if stop - start > 5]


class FindsNothing(FindsLongWords):
    def forward(self, windows: Sequence[TextWindow]) -> list[list[Found]]:
        return [[] for _ in windows]


def _text(characters: int) -> str:
    return ("so much Harwich of it, " * (characters // 23 + 1))[:characters]


def test_a_document_of_several_sections_has_each_mention_once_at_its_place() -> None:
    text = _text(2 * SIZE)
    ((document, windows),) = predict_and_count(FindsLongWords(), [Document("d", text)])
    assert [(m.start, m.end) for m in document.mentions] == [
        (start, end) for start, end in find_words(text) if end - start > 5
    ]
    assert document.text is text
    assert windows > len(text) / (40 * 8)


def test_long_and_short_items_keep_their_order() -> None:
    documents = [Document("a", "so Harwich"), Document("b", _text(SIZE + OVERLAP)), Document("c", "")]
    found = list(predict(FindsLongWords(), documents))
    assert [d.document_id for d in found] == ["a", "b", "c"]
    assert [len(d.text) for d in found] == [10, SIZE + OVERLAP, 0]


def test_working_memory_does_not_grow_with_the_number_of_windows() -> None:
    """What lies above the text and its mentions; without sections, some 100 bytes a character: 79 MB."""
    text = "so much of it " * (3 * SIZE // 14)
    tracemalloc.start()
    try:
        (document,) = predict(FindsNothing(), [Document("d", text)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert document.mentions == ()
    assert peak < 45 * 2**20


def test_words_that_are_not_in_order_count_as_none_in_every_section() -> None:
    text = _text(2 * SIZE)
    words = tuple(find_words(text))
    for given, kept in ((words, True), (words[::-1], False)):
        pieces = [*pieces_of([Document("d", text, words=given)], whole=False)]
        assert len(pieces) > 1
        assert [bool(piece.part.words) for piece in pieces] == [kept] * len(pieces)
        assert all(piece.item.words is given for piece in pieces)
