from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import SpanDecoding
from rayner.data.batches import TOKENS_PER_BATCH
from rayner.data.schema import Context, Document, Mention
from rayner.data.words import find_words
from rayner.errors import InputError
from rayner.tasks import predict as module
from rayner.tasks.document_windows import Found, TextWindow
from rayner.tasks.predict import BATCHES_PER_ROUND, checked, has_spare_core, predict
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.recognizer.task import RecognizerOptions
from tests.tasks.small import built, corpus, found, recognizer, spans, trained

TASK = recognizer(decoding={"overlap": "nested"})
MARKED = "Zorn"


class FindsZorn(Recognizer):
    """Finds each run of the word Zorn that a window shows, and nothing else."""

    def __init__(self, task: object, seen: list[int]) -> None:
        self._task = task  # type: ignore[assignment]
        self._decoding, self._calibration = SpanDecoding(overlap="nested"), None
        self.names, self._seen, self.tokens_per_batch = ["PER"], seen, TOKENS_PER_BATCH

    def forward(self, windows: Sequence[TextWindow]) -> list[list[Found]]:
        self._seen.append(len(windows))
        found = []
        for window in windows:
            subwords, (begin, end) = window.subwords, window.span
            text_of = [TEXT[slice(*subwords.words[w])] for w in subwords.word_of[begin:end]]
            marked = np.array([t == MARKED for t in text_of])
            edges = np.flatnonzero(np.diff(np.concatenate([[0], marked, [0]])))
            found.append([Found(0, int(a + 1), int(b), 1.0) for a, b in edges.reshape(-1, 2)])
        return found


TEXT = ""


@given(
    st.lists(st.tuples(st.integers(1, 25), st.integers(1, 3)), min_size=1, max_size=25),
    st.integers(9, 17),
)
def test_a_mention_near_the_edge_of_a_window_is_found_as_in_an_undivided_text(
    gaps: list[tuple[int, int]], overlap: int
) -> None:
    """A window that sees only a part of a run finds a part: the one that sees it whole must win."""
    global TEXT
    TEXT = " ".join(" ".join(["so"] * gap + [MARKED] * run) for gap, run in gaps) + " so"
    places = find_words(TEXT)
    # Zorn has two sub-words: a run of three and a neighbour on each side are as wide as 8 sub-words.
    task = recognizer(windows={"length": 36, "overlap": overlap}, model={"max_span_width": 8})
    (document,) = predict(FindsZorn(task, []), [Document("d", TEXT)])
    expected, position = set(), 0
    for gap, run in gaps:
        position += gap
        expected.add((places[position][0], places[position + run - 1][1], "PER"))
        position += run
    assert spans(document) == expected


def _mixed() -> list[Document]:
    texts = [d.text for d in corpus()]
    long = " ".join(texts * 4)
    return [Document(f"m{i}", t) for i, t in enumerate([texts[0], "", long, " \n", texts[3], long[40:], "x"])]


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    """A model that has seen the small corpus."""
    return trained(TASK, corpus())


def test_answers_come_in_order_from_any_iterable(model: torch.nn.Module) -> None:
    def generated() -> Iterator[Document]:
        yield from _mixed()

    answers = list(predict(TASK.predictor(model), generated(), tokens_per_batch=64))
    assert [(d.document_id, d.text) for d in answers] == [(d.document_id, d.text) for d in _mixed()]
    assert [len(d.mentions) > 0 for d in answers] == [True, False, True, False, False, True, False]
    assert list(predict(TASK.predictor(model), [])) == []


def test_predictions_start_before_the_last_item_is_read(model: torch.nn.Module) -> None:
    read = []

    def endless() -> Iterator[Document]:
        for index in range(100_000):
            read.append(index)
            yield Document(str(index), "Ada Lovelace wrote to London. " * 20)

    first = next(predict(TASK.predictor(model), endless(), tokens_per_batch=64))
    assert first.document_id == "0"
    assert len(read) < 100


def test_windows_prepared_ahead_have_the_same_answers(model: torch.nn.Module) -> None:
    plain = found(TASK, model, _mixed(), tokens_per_batch=2)
    assert found(TASK, model, _mixed(), tokens_per_batch=2, ahead=True) == plain

    def failing() -> Iterator[Document]:
        yield _mixed()[0]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(predict(TASK.predictor(model), failing(), tokens_per_batch=2, ahead=True))


class Watched:
    """Answers each number with itself, notes which are prepared, and in `forward` waits for one of them."""

    forward_cost, tokens_per_batch, whole = 0, 1, False

    def __init__(self, awaits: int | None = None) -> None:
        self.prepared = [threading.Event() for _ in range(200)]
        self.awaits, self.before_forward = awaits, 0

    def prepare(self, item: int) -> list[int]:
        self.prepared[item].set()
        return [item]

    def length_of(self, window: int) -> int:
        return 1

    def forward(self, windows: Sequence[int]) -> list[int]:
        if self.awaits is not None:
            assert self.prepared[self.awaits].wait(300), "the next round is not prepared meanwhile"
        self.before_forward = self.before_forward or sum(event.is_set() for event in self.prepared)
        return list(windows)

    def finish(self, item: int, windows: Sequence[int], scores: Sequence[int]) -> int:
        return scores[0]

    def evaluate(self, predicted: Sequence[int], gold: Sequence[int]) -> dict[str, Any]:
        return {}


def test_the_next_round_is_prepared_while_another_is_in_forward() -> None:
    plain = Watched()
    assert list(predict(plain, range(200))) == list(range(200))
    first = plain.before_forward
    # Also of a job that is no bigger than a few batches.
    assert first <= BATCHES_PER_ROUND[0]
    ahead = Watched(awaits=first)
    assert list(predict(ahead, range(200), ahead=True)) == list(range(200))


def test_rounds_grow_up_to_a_bound() -> None:
    rounds: list[int] = []

    class Counted(Watched):
        def finish(self, item: int, windows: Sequence[int], scores: Sequence[int]) -> int:
            rounds.append(sum(event.is_set() for event in self.prepared))
            return item

    list(predict(Counted(), range(200)))
    ends = sorted(set(rounds))
    sizes = [b - a for a, b in pairwise([0, *ends])]
    least, most = (n // 2 for n in BATCHES_PER_ROUND)
    assert sizes[0] == least
    assert max(sizes) == most
    assert sizes[:-1] == sorted(sizes[:-1])


def test_items_of_next_to_nothing_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayner.tasks.predict.PIECES_PER_ROUND", 5)
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        for number in range(100):
            read = number + 1
            yield number

    class Large(Watched):
        tokens_per_batch = 1_000_000

    assert next(iter(predict(Large(), items()))) == 0
    assert read == 5


@pytest.mark.parametrize(("asked", "second"), [(None, 64), (3, 3), (1000, 64)])
def test_fewer_tokens_a_batch_are_for_all_stages(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, second: int
) -> None:
    used: list[int] = []

    class Stage(Watched):
        def __init__(self, tokens: int) -> None:
            super().__init__()
            self.tokens_per_batch = tokens

    rounds = module._rounds

    def counted(predictor: Any, pieces: Any, tokens: int) -> Any:
        used.append(tokens)
        return rounds(predictor, pieces, tokens)

    monkeypatch.setattr(module, "_rounds", counted)
    chain: Any = SimpleNamespace(stages=(Stage(128), Stage(64)))
    assert list(predict(chain, range(10), asked)) == list(range(10))
    assert sorted(used) == sorted([asked or 128, second])


def test_a_core_is_spare_beyond_the_threads_of_the_model() -> None:
    threads = torch.get_num_threads()
    assert has_spare_core(threads + 0.5)
    assert not has_spare_core(threads)
    assert has_spare_core() is (len(os.sched_getaffinity(0)) > threads)


@pytest.mark.parametrize("tokens_per_batch", [1, 90, 100_000])
def test_neighbours_in_a_batch_and_padding_change_no_score(
    model: torch.nn.Module, tokens_per_batch: int
) -> None:
    everything = TASK.predictor(model, RecognizerOptions(shift=-1000.0))
    alone = [next(iter(predict(everything, [d]))) for d in _mixed()]
    together = list(predict(everything, _mixed()[::-1], tokens_per_batch))[::-1]
    for one, other in zip(alone, together, strict=True):
        assert [(m.start, m.end, m.type) for m in one.mentions] == [
            (m.start, m.end, m.type) for m in other.mentions
        ]
        np.testing.assert_allclose(
            [m.score for m in one.mentions], [m.score for m in other.mentions], atol=1e-4
        )
    decided = [spans(d) for d in found(TASK, model, _mixed(), tokens_per_batch=tokens_per_batch)]
    for document, certain in zip(alone, decided, strict=True):
        for mention in document.mentions:
            if abs((mention.score or 0) - 0.5) > 1e-4:
                assert ((mention.start, mention.end, mention.type) in certain) == ((mention.score or 0) > 0.5)


@given(st.text(alphabet="abÄß ,.-’'\n\u0301🙂👩\u200d京タwiß1", max_size=80))
def test_mentions_start_and_end_with_words(text: str) -> None:
    words = find_words(text)
    starts, ends = {w[0] for w in words}, {w[1] for w in words}
    everything = TASK.predictor(UNTRAINED, RecognizerOptions(shift=-1000.0))
    (document,) = predict(everything, [Document("d", text)])
    assert all(m.start in starts and m.end in ends for m in document.mentions)
    pairs = {(m.start, m.end) for m in document.mentions}
    assert set(words) <= pairs
    flat = TASK.predictor(UNTRAINED, RecognizerOptions(shift=-1000.0, overlap="flat"))
    (document,) = predict(flat, [Document("d", text)])
    assert all(a.end <= b.start for a, b in pairwise(document.mentions))


UNTRAINED = built(TASK).eval()


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (5, "items: 5 holds no text"),
        (None, "items: None holds no text"),
        ({"text": "a"}, r"items: \{'text': 'a'\} holds no text"),
        (
            SimpleNamespace(columns=["text"], text=5),
            "items: SimpleNamespace holds columns.*give one of its columns",
        ),
        ([None], r"items\[0\]: None is no text"),
        (["a", b"b"], r"items\[1\]: b'b' is no text"),
        (b"b", r"items\[0\]: 98 is no text"),
        ([Document("d", 5)], r"items\[0\]: Document.* is no text"),  # type: ignore[arg-type]
        (["a\ud800b"], r"items\[0\]: half a surrogate pair at character 1"),
        ([Document("d", "\udfff")], r"items\[0\]: half a surrogate pair at character 0"),
        (
            [Document("d", "a", (Mention(0, 1, "\ud800"),))],
            r"items\[0\]: half a surrogate pair in '\\ud800', which is no",
        ),
        (
            [Document("d", "a", sentence_contexts=((Context("\ud800 b"),),))],
            r"items\[0\]: half a surrogate pair in '\\ud800 b', which is no",
        ),
        (
            [Document("d", "a b", words=((0, 1) for _ in "a"))],  # type: ignore[arg-type]
            r"items\[0\]: its mentions, words, sentences or contexts are not such as a document has; give",
        ),
        (np.array("a"), r"items: array\('a', dtype='<U1'\) holds no text"),
    ],
)
def test_what_holds_no_text_is_refused_by_its_place(items: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(checked(items))


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (((),), "sentence_contexts are of 1 sentence, and it has 2"),
        (((), (), ()), "sentence_contexts are of 3 sentences, and it has 2"),
        ((("x",), ()), "not such as a document has"),
        ((3, 4), "not such as a document has"),
        (((Context(5),), ()), "context 5 with score None are not a string"),  # type: ignore[arg-type]
    ],
)
def test_contexts_of_sentences_are_one_list_each(contexts: Any, message: str) -> None:
    document = Document("d", "a b", sentences=((0, 1), (2, 3)), sentence_contexts=contexts)
    with pytest.raises(InputError, match=rf"items\[0\]: .*{message}"):
        list(checked([document]))
    whole = Document("d", "a b", sentence_contexts=((Context("c"),),))
    blank = Document("d", " ", sentences=(), sentence_contexts=())
    assert list(checked([whole, blank])) == [whole, blank]


@pytest.mark.parametrize("tokens", [0, -1, 1.5, math.nan, "2048"])
def test_a_batch_of_no_number_of_tokens_is_refused(tokens: Any) -> None:
    with pytest.raises(InputError, match=f"^tokens_per_batch: {tokens!r} is no whole number of 1 or more"):
        predict(TASK.predictor(UNTRAINED, RecognizerOptions()), [Document("d", "a")], tokens)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"overlap": "x"}, "overlap"),
        ({"overlap": ["flat"]}, "overlap"),
        ({"shift": math.nan}, "shift"),
        ({"shift": "much"}, "shift"),
    ],
)
def test_options_that_no_predictor_has_are_refused(options: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError, match=f"^{where}: "):
        RecognizerOptions.of(options, "recognizer")


def test_words_of_the_corpus_are_kept_whole() -> None:
    document = Document("d", "can't stop", words=((0, 2), (2, 5), (6, 10)))
    everything = TASK.predictor(UNTRAINED, RecognizerOptions(shift=-1000.0))
    (predicted,) = predict(everything, [document])
    assert {(m.start, m.end) for m in predicted.mentions} == {
        *((0, 2), (0, 5), (0, 10), (2, 5), (2, 10), (6, 10)),
    }
