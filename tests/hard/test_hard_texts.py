"""Texts that are valid and hard: endless, without spaces, of many scripts, with NUL, of nothing at all."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.meter import Meter
from rayner.data.readers import read_corpus
from rayner.data.schema import Document, Mention, Span
from rayner.data.windows import cut, split_into_subwords
from rayner.data.words import find_words
from rayner.tasks.predict import predict
from tests.tasks.small import built, found, marked, recognizer, spans, tagger, trained

HARD: Sequence[str] = (
    "[PER:Ada\x00Lovelace] wrote\x00 to [LOC:\x00Zürich] twice.",
    "[PER:Zoe\u0308] met [PER:A\u0301ngel I\u0301n\u0303igo] near [LOC:Co\u0302te d'Azur]\u0301.",
    "👩\u200d👩\u200d👧 and [PER:Ada 🙂] saw 🇩🇪 in [LOC:🏝️ Bali]🎉 again.",
    "פגשתי את [PER:עדה לאבלייס] ב[LOC:ירושלים] אתמול.",
    "التقيت [PER:آدا لوفليس] في [LOC:القاهرة] أمس.",
    "昨日[PER:山田太郎]は[LOC:東京都]に行った。",
    "[PER:สมชาย]ไปที่[LOC:เชียงใหม่]",
    "\u202e[PER:Bob]\u202c \ufeffsaw\u200b [LOC:Rome]\u00ad.",
    "Only " + "x" * 50_000 + " and [PER:Curie] here.",
)
# Long names in scripts that are written without spaces are many words.
SETTINGS = {"windows": {"length": 64, "overlap": 24}, "model": {"max_span_width": 12}}


def hard() -> list[Document]:
    """The hard texts with mentions that start and end with words."""
    documents = []
    for index, text in enumerate(HARD):
        document = marked(text, f"h{index}")
        words = find_words(document.text)
        mentions = []
        for m in document.mentions:
            inside = [w for w in words if w[0] < m.end and m.start < w[1]]
            mentions.append(Mention(inside[0][0], inside[-1][1], m.type))
        documents.append(Document(document.document_id, document.text, tuple(mentions)))
    return documents


@pytest.mark.parametrize("kind", ["recognizer", "tagger"])
def test_hard_texts_are_learned_by_heart_with_exact_offsets(kind: str) -> None:
    task = recognizer(**SETTINGS) if kind == "recognizer" else tagger(windows=SETTINGS["windows"])
    documents = hard()

    def is_learned(model: Any) -> bool:
        return [spans(d) for d in found(task, model, documents)] == [spans(d) for d in documents]

    model = trained(task, documents, steps=90, until=is_learned)
    for predicted, gold in zip(found(task, model, documents), documents, strict=True):
        assert predicted.text == gold.text
        assert spans(predicted) == spans(gold), gold.text


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\t\r\n", "\x00", "\u200b\ufeff\u00ad", "\x07\x1b", "...!?", "。", "\u0301", "\U000e0001"],
)
def test_texts_of_next_to_nothing_have_an_answer(text: str) -> None:
    for task in (recognizer(), tagger()):
        (document,) = found(task, built(task), [Document("d", text)])
        assert document.text == text
        assert all(0 <= m.start < m.end <= len(text) for m in document.mentions)


def _letters(text: str) -> tuple[list[int], list[Span]]:
    kept = [i for i, character in enumerate(text) if not character.isspace()]
    return [ord(text[i]) % 1000 for i in kept], [(i, i + 1) for i in kept]


def test_a_word_longer_than_a_window_is_cut_and_its_neighbours_are_not() -> None:
    text = "Ada met " + "x" * 50_000 + " in Rome."
    words = find_words(text)
    subwords = split_into_subwords(text, words, _letters, 0)
    assert len(subwords) == 50_000 + len("Adametin Rome.") - 1
    windows = cut(subwords, 62, 16)
    covered = 0
    for window in windows:
        assert window.end - window.begin <= 62
        assert window.begin <= covered < window.end
        covered = window.end
    assert covered == len(subwords)
    for first, last in [(0, 2), (3, 5), (50_006, 50_007), (50_008, 50_011)]:
        assert any(w.begin <= first and last < w.end for w in windows)


def test_two_million_characters_in_24_seconds_and_200_megabytes() -> None:
    sentence = "[PER:Ada Lovelace] wrote to [ORG:the Royal Society] in [LOC:London]; nobody answered. "
    task = recognizer(
        encoder="random:32x1",
        model={"max_span_width": 4},
        windows={"length": 128, "overlap": 24},
    )
    model = trained(task, [marked(sentence * 30)], rate=5e-3)
    pattern = marked(sentence)
    count = 2_000_000 // len(pattern.text) + 1
    text = pattern.text * count
    found: list[Document] = []
    begin = time.process_time()
    megabytes = Meter("cpu", "float32").peak_mb(
        lambda: found.extend(predict(task.predictor(model), [Document("d", text)]))
    )
    seconds = time.process_time() - begin
    (document,) = found
    assert document.text == text
    places = [
        (m.start + i * len(pattern.text), m.end + i * len(pattern.text), m.type)
        for i in range(count)
        for m in pattern.mentions
    ]
    assert [(m.start, m.end, m.type) for m in document.mentions] == sorted(places)
    assert seconds < 24
    assert not megabytes >= 200  # not a number where nothing but Linux says it


def test_long_documents_are_cut_in_time_that_grows_with_their_length() -> None:
    sentence = "Ada Lovelace wrote to the Royal Society in London, again and again and again. "
    settings = {"length": 32, "overlap": 8}
    for make in (recognizer, tagger):
        task, seconds = make(windows=settings), []
        for count in (250, 2500):
            mentions = tuple(Mention(i * len(sentence), i * len(sentence) + 12, "PER") for i in range(count))
            begin = time.thread_time()
            rows = list(task.examples([Document("d", sentence * count, mentions)]))
            seconds.append(time.thread_time() - begin)
            assert len(rows) > count / 4
        assert seconds[1] < 40 * seconds[0] + 1


def test_nul_and_its_like_survive_being_stored(tmp_path: Path) -> None:
    documents = hard()
    path = tmp_path / "hard.jsonl"
    rows = [
        {
            "document_id": d.document_id,
            "text": d.text,
            "mentions": [{"start": m.start, "end": m.end, "type": m.type} for m in d.mentions],
        }
        for d in documents
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = read_corpus(path)
    assert not reading.rejects
    assert [(d.text, d.mentions) for d in reading.documents] == [(d.text, d.mentions) for d in documents]
    (tmp_path / "raw.txt").write_bytes(b"Ada\x00Lovelace wrote home, more than once, and often.")
    assert read_corpus(tmp_path / "raw.txt").documents[0].text.startswith("Ada\x00Lovelace")
