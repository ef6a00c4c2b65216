"""Windows around mentions: what the encoder reads, and where."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.config import WindowSettings
from rayner.config.typer import MentionEncoding
from rayner.data.batches import TOKENS_PER_BATCH
from rayner.data.schema import Context, Document, Mention
from rayner.data.words import find_words
from rayner.errors import RecipeError
from rayner.models.tokenizer import load_tokenizer
from rayner.tasks.chains.story_rows import rows
from rayner.tasks.document_windows import text_windows
from rayner.tasks.typer.mention_batches import by_tokens
from rayner.tasks.typer.mention_windows import MentionWindow, MentionWindows, _sides

TOKENIZER = load_tokenizer("random:32x2")
ENCODINGS = get_args(MentionEncoding)
TEXT = "So the old singer of Paris slept."


def windows_of(encoding: MentionEncoding, **settings: int) -> MentionWindows:
    return MentionWindows(WindowSettings.model_validate(settings), encoding, TOKENIZER)


def read(window: MentionWindow) -> list[str]:
    """The window's sub-words, the place that is read in capitals."""
    pieces = [str(TOKENIZER._fast.id_to_token(int(i))) for i in window.ids]
    (place,) = window.places
    return [*pieces[:place], pieces[place].upper(), *pieces[place + 1 :]]


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("head", "so the old SINGER of paris slept ."),
        ("span_markers", "so the old [UNUSED1] singer of paris [unused2] slept ."),
        ("head_markers", "so the old [UNUSED1] singer [unused2] of paris slept ."),
        ("mask", "so the old [MASK] slept ."),
        ("prompt", "so the old singer of paris slept . the type of singer of paris is [MASK] ."),
        ("triple", "so the old singer of paris slept . < singer of paris , hasty ##pe , [MASK] >"),
    ],
)
def test_what_is_read(encoding: MentionEncoding, expected: str) -> None:
    start = TEXT.index("singer")
    document = Document("d", TEXT, (Mention(start, start + len("singer of Paris"), "x"),))
    (window,) = windows_of(encoding)(document)
    assert " ".join(read(window)) == expected


def test_the_head_that_a_mention_names_is_read() -> None:
    start, head = TEXT.index("singer"), TEXT.index("Paris")
    mention = Mention(start, start + len("singer of Paris"), "x", head=(head, head + 5))
    (window,) = windows_of("head")(Document("d", TEXT, (mention,)))
    assert read(window)[5] == "PARIS"


@pytest.mark.parametrize(
    "mention", ["the investigation into her death", "her, who had slept", 'the old "Times"']
)
def test_a_typer_reads_the_head_that_the_pre_training_on_chains_reads(mention: str) -> None:
    mentions = Mention(0, 2, "x", chain="c"), Mention(9, 9 + len(mention), "x", chain="c")
    document = Document("d", f"It, then {mention}.", mentions)
    (window,) = windows_of("head")(document)
    texts = text_windows(document, WindowSettings(), TOKENIZER, TOKENIZER.unk_id, TOKENIZER.sep_id)
    (row,) = rows(document, texts)
    assert window.places.tolist() == row["head"][::2].tolist()


def test_a_head_is_no_closing_quote() -> None:
    (window,) = windows_of("head")(Document("d", 'The "Times" ran', (Mention(0, 11, "x"),)))
    assert "TIMES" in read(window)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    words = draw(
        st.lists(st.sampled_from(["so", "unaffable", "日", "🙂", ",", "a\u0301"]), min_size=1, max_size=90)
    )
    text = " ".join(words)
    places = find_words(text)
    mentions = []
    for _ in range(draw(st.integers(0, 4))):
        first = draw(st.integers(0, len(places) - 1))
        last = draw(st.integers(first, len(places) - 1))
        mentions.append(Mention(places[first][0], places[last][1], "x"))
    contexts = (Context("before it, much", 1.0), Context("after it", 0.5, before=False))
    return Document("d", text, tuple(mentions), contexts=contexts if draw(st.booleans()) else ())


@given(documents(), st.sampled_from(ENCODINGS), st.sampled_from([(24, 6, 0), (40, 4, 10), (128, 32, 16)]))
def test_every_mention_is_read_once_in_a_window_that_fits(
    document: Document, encoding: MentionEncoding, lengths: tuple[int, int, int]
) -> None:
    length, overlap, context = lengths
    found = windows_of(encoding, length=length, overlap=overlap, context=context)(document)
    numbers = [number for window in found for number in window.mentions.tolist()]
    assert sorted(numbers) == list(range(len(document.mentions)))
    for window in found:
        assert len(window) <= length
        assert len(window.places) == len(window.mentions)
        for number, place in zip(window.mentions.tolist(), window.places.tolist(), strict=True):
            token = int(window.ids[place])
            if encoding in ("mask", "prompt", "triple"):
                assert token == TOKENIZER.mask_id
            elif encoding == "head":
                mention = document.mentions[number]
                own = document.text[mention.start : mention.end]
                assert token in [*TOKENIZER(own)[0], TOKENIZER.unk_id]
            else:
                assert token == TOKENIZER.id_of("[unused1]")


def test_of_a_mention_longer_than_the_window_the_middle_is_hidden() -> None:
    text = " ".join(["first", *["word"] * 100, "last"])
    document = Document("d", text, (Mention(0, len(text), "x"),))
    (window,) = windows_of("span_markers", length=32, overlap=4)(document)
    pieces = read(window)
    assert pieces[:2] == ["[UNUSED1]", "first"]
    assert pieces[-2:] == ["last", "[unused2]"]
    assert window.hidden == 102 - (len(window.ids) - 2)
    (head,) = windows_of("head", length=32, overlap=4)(document)
    assert (read(head)[head.places[0]], head.hidden) == ("LAST", 0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_mention_is_read_with_its_own_sentence_and_the_contexts_of_that(encoding: MentionEncoding) -> None:
    contexts = ((Context("first", 1.0),), (Context("second", 1.0),), (Context("third", 1.0, before=False),))
    document = Document(
        "d",
        "Old singer. Young Paris. Night.",
        (Mention(18, 23, "x"),),
        sentences=((0, 11), (12, 24), (25, 31)),
        sentence_contexts=contexts,
    )
    (window,) = windows_of(encoding, length=40, overlap=4, context=8)(document)
    pieces = " ".join(read(window)).lower()
    assert pieces.startswith("second [sep] young")
    assert not {"old", "night", "first", "third"} & set(pieces.split())


def test_a_mention_without_a_word_is_in_no_window() -> None:
    document = Document("d", "a  \t b", (Mention(2, 3, "x"), Mention(0, 1, "x")))
    assert [w.mentions.tolist() for e in ENCODINGS for w in windows_of(e)(document)] == [[1]] * len(ENCODINGS)
    assert windows_of("mask")(Document("d", " ", (Mention(0, 1, "x"),))) == []


def test_windows_must_leave_room_for_the_text() -> None:
    with pytest.raises(RecipeError, match=r"windows\.length: 12 sub-words leave 3 for the text; make it at"):
        windows_of("triple", length=12, overlap=0)


def test_room_that_one_side_leaves_is_the_other_ones() -> None:
    assert (_sides(10, 20, 2), _sides(10, 2, 20), _sides(10, 20, 20)) == ((8, 2), (2, 8), (5, 5))


def test_short_rows_after_a_long_one_are_as_wide_as_that() -> None:
    rows = [{"length": TOKENS_PER_BATCH}, {"length": 1}]
    assert [len(batch) for batch in by_tokens(rows)] == [1, 1]
