from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.data.words import find_words
from rayner.errors import CorpusError
from tests.tasks.small import collated, corpus, marked, recognizer

TASK = recognizer()
SCRAPS = st.sampled_from(
    [
        *(
            "Ada",
            "Lovelace",
            "internationalization",
            "x",
            "42",
            "e\u0301te\u0301",
            "Ñandú",
            "naïve",
            "-",
            "...",
            "'s",
        ),
        *("東京都", "タワーへ", "สวัสดีครับ", "שלום", "مرحبا", "نمی\u200cخواهم", "हिन्दी"),
        *(
            "🙂",
            "👩\u200d👩\u200d👧",
            "🇩🇪",
            "\u0000",
            "\u0007",
            "\u200b",
            "\ufeff",
            "\u202e",
            "\u00ad",
            "\U0001f600",
        ),
    ]
)
TEXTS = st.lists(st.tuples(SCRAPS, st.sampled_from(["", " ", "\n", "\u3000"])), max_size=40).map(
    lambda parts: "".join(a + b for a, b in parts)
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """A text of many scripts with mentions from word to word."""
    text = draw(TEXTS)
    words = find_words(text)
    mentions = []
    for _ in range(draw(st.integers(0, 6)) if words else 0):
        first = draw(st.integers(0, len(words) - 1))
        last = min(len(words) - 1, first + draw(st.integers(0, 3)))
        mentions.append(Mention(words[first][0], words[last][1], draw(st.sampled_from(["PER", "LOC"]))))
    return Document("d", text, tuple(mentions))


@given(documents())
def test_the_positions_of_mentions_in_a_batch_are_those_in_the_text(document: Document) -> None:
    rows = list(TASK.examples([document]))
    if not rows:
        assert not find_words(document.text)
        return
    windows = TASK.windows_of(document)
    batch = TASK.collate(rows, [])
    targets = batch.targets
    seen = set()
    for row, kind, first, last in targets.gold.tolist():
        assert targets.word_start[row, first]
        assert targets.word_end[row, last]
        assert batch.mask[row, last]
        subwords, begin = windows[row].subwords, windows[row].span.begin
        assert subwords.ids[begin + first - 1] == batch.ids[row, first]
        start = subwords.words[subwords.word_of[begin + first - 1]][0]
        end = subwords.words[subwords.word_of[begin + last - 1]][1]
        seen.add((start, end, TASK.names[kind]))
    wanted = {(m.start, m.end, m.type) for m in document.mentions}
    assert seen <= wanted
    assert len(rows[0]["rejects"]) == sum((m.start, m.end, m.type) not in seen for m in document.mentions)


@given(documents())
def test_special_tokens_and_padding_are_no_place_for_a_mention(document: Document) -> None:
    if not find_words(document.text):
        return
    batch = collated(TASK, [document, marked("Short.", "e")])
    inner = batch.mask.clone()
    inner[:, 0] = False
    inner[np.arange(len(inner)), batch.mask.sum(1) - 1] = False
    assert not (batch.targets.word_start & ~inner).any()
    assert not (batch.targets.word_end & ~inner).any()
    assert (batch.ids[:, 0] == TASK.tokenizer.cls_id).all()
    assert (batch.ids[~batch.mask] == TASK.tokenizer.pad_id).all()


def test_each_mention_that_is_left_out_or_moved_is_named() -> None:
    wide = "one two three four five six seven eight nine"
    text = f"{wide} met Lovelace; Ada   saw \u200b cats."
    cats, lovelace = text.index("cats"), text.index("Lovelace")
    mentions = (
        Mention(0, len(wide), "PER"),
        Mention(cats, cats + 4, "ANIMAL"),
        Mention(lovelace, lovelace + 4, "PER"),
        Mention(text.index("\u200b"), text.index("\u200b") + 1, "LOC"),
        Mention(text.index("Ada"), text.index("Ada") + 3, "PER"),
    )
    rows = list(TASK.examples([Document("d7", text, mentions)]))
    assert rows[0]["rejects"] == [
        "d7: PER at 0-44: 9 sub-words, over max_span_width 8",
        f"d7: ANIMAL at {cats}-{cats + 4}: the recipe has no such type",
        f"d7: PER at {lovelace}-{lovelace + 4}: moved outward to whole words",
        f"d7: LOC at {text.index(chr(0x200B))}-{text.index(chr(0x200B)) + 1}: holds no word",
    ]
    assert len(collated(TASK, [Document("d7", text, mentions)]).targets.gold) == 2


def test_mentions_without_any_word_are_refused_and_not_forgotten() -> None:
    with pytest.raises(CorpusError, match=r"d1: .*no word"):
        list(TASK.examples([Document("d1", "\u200b\n", (Mention(0, 1, "PER"),))]))
    assert list(TASK.examples([Document("d2", " \n")])) == []


def test_a_mention_that_is_there_twice_counts_once() -> None:
    twice = Document(
        "d", "Ada wrote", (Mention(0, 3, "PER", "Q1"), Mention(0, 3, "PER", "Q2"), Mention(0, 2, "PER"))
    )
    assert collated(TASK, [twice]).targets.gold.tolist() == [[0, 0, 1, 1]]


def test_mentions_cut_by_a_window_are_no_negatives_there() -> None:
    task = recognizer(windows={"length": 20, "overlap": 7})
    words = [f"w{chr(97 + i % 26)}" for i in range(60)]
    text = " ".join(words)
    places = find_words(text)
    mentions = tuple(Mention(places[i][0], places[i + 2][1], "ORG") for i in range(0, 57, 3))
    document = Document("d", text, mentions)
    windows = task.windows_of(document)
    assert len(windows) > 2
    batch = collated(task, [document])
    expected: dict[str, set[tuple[int, int, int]]] = {"starts": set(), "ends": set()}
    for row, window in enumerate(windows):
        begin, end = window.span
        for mention in mentions:
            i = places.index((mention.start, places[[p[0] for p in places].index(mention.start)][1]))
            first, last = int(window.subwords.first[i]), int(window.subwords.last[i + 2])
            if begin <= first < end <= last:
                expected["starts"].add((row, 1, first - begin + 1))
            if first < begin <= last < end:
                expected["ends"].add((row, 1, last - begin + 1))
    assert expected["starts"]
    assert expected["ends"]
    assert set(map(tuple, batch.targets.excluded_starts.tolist())) == expected["starts"]
    assert set(map(tuple, batch.targets.excluded_ends.tolist())) == expected["ends"]
    whole = {
        (window.subwords.words[window.subwords.word_of[window.span.begin + first - 1]][0])
        for (row, _, first, _), window in zip(
            batch.targets.gold.tolist(), [windows[g[0]] for g in batch.targets.gold.tolist()], strict=True
        )
    }
    assert whole == {m.start for m in mentions}, "each mention lies whole in some window"


def test_the_ends_of_a_mention_that_is_too_wide_are_no_negatives() -> None:
    text = "one two three four five six seven eight nine met Ada"
    document = Document("d", text, (Mention(0, 44, "PER"), Mention(49, 52, "PER")))
    (example,) = recognizer().examples([document])
    assert example["gold"].tolist() == [0, 10, 10]
    assert example["cut_starts"].tolist() == [0, 0]
    assert example["cut_ends"].tolist() == [0, 8]


def test_no_mention_is_too_wide_where_all_spans_are_scored() -> None:
    text = "one two three four five six seven eight nine met Ada"
    document = Document("d", text, (Mention(0, 44, "PER"), Mention(49, 52, "PER")))
    (example,) = recognizer(loss={"negatives": "all"}).examples([document])
    assert example["gold"].tolist() == [0, 0, 8, 0, 10, 10]
    assert not len(example["cut_starts"])
    assert not len(example["cut_ends"])
    assert len(example["rejects"]) == 1, "it is learned, and cannot be predicted"


def test_the_end_of_a_wide_mention_is_no_negative_however_far_its_start() -> None:
    task = recognizer(windows={"length": 20, "overlap": 7})
    text = " ".join(f"w{chr(97 + i % 26)}" for i in range(60))
    places = find_words(text)
    document = Document("d", text, (Mention(places[0][0], places[29][1], "PER"),))
    for window, example in zip(task.windows_of(document), task.examples([document]), strict=True):
        begin, end = window.span
        last = int(window.subwords.last[29])
        assert example["cut_ends"].tolist() == ([0, last - begin] if begin <= last < end else [])


def test_examples_are_the_same_one_by_one() -> None:
    together = list(TASK.examples(corpus()))
    alone = [row for document in corpus() for row in TASK.examples([document])]
    assert [r["ids"].tolist() for r in together] == [r["ids"].tolist() for r in alone]
    assert [r["gold"].tolist() for r in together] == [r["gold"].tolist() for r in alone]
