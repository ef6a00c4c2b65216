"""Documents that hypothesis draws, for tests of what is written and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from rayner.data.schema import Candidate, Document, Mention, Span

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(st.one_of(st.sampled_from("ab \n\t\r\u00e9\U0001f600\ufeff\u2028"), LETTERS), max_size=30)
IDS = st.text(st.sampled_from("abcXYZ019-"), min_size=1, max_size=6)
NAMES = st.text(LETTERS, min_size=1, max_size=5)
TYPE_NAMES = NAMES.filter(str.strip)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)
SCORED = st.lists(st.tuples(NAMES, SCORES), max_size=2).map(tuple)
CANDIDATES = st.lists(
    st.builds(Candidate, NAMES, SCORES, st.none() | NAMES, st.none() | NAMES), max_size=2
).map(tuple)
TYPES = st.sampled_from(["PER", "Disease", "creative-work"])
ENTITIES = st.sampled_from([None, "D012", "D1|D2", "MESH:D3", "a:b:c", "Bob_Dylan"])


def spans(size: int) -> st.SearchStrategy[Span]:
    return st.tuples(st.integers(0, size - 1), st.integers(1, size)).map(
        lambda s: (min(s[0], s[1] - 1), s[1])
    )


@st.composite
def full_documents(draw: st.DrawFn) -> Document:
    """Anything that the schema allows."""
    text = draw(TEXTS)
    mentions: list[Mention] = []
    if text:
        for start, end in draw(st.lists(spans(len(text)), max_size=4)):
            mentions.append(
                Mention(
                    start,
                    end,
                    draw(TYPE_NAMES),
                    draw(st.none() | NAMES),
                    draw(st.none() | NAMES),
                    draw(st.none() | spans(len(text))),
                    draw(st.none() | SCORES),
                    draw(SCORED),
                    draw(CANDIDATES),
                    draw(st.none() | SCORES),
                    draw(st.none() | SCORES),
                    name=draw(st.none() | NAMES),
                )
            )
    some = st.none() | (st.lists(spans(len(text)), max_size=3).map(tuple) if text else st.just(()))
    return Document(
        draw(IDS),
        text,
        tuple(mentions),
        draw(some),
        draw(some),
        draw(st.none() | NAMES),
        draw(st.none() | NAMES),
        draw(st.none() | st.lists(NAMES, max_size=2).map(tuple)),
    )


@st.composite
def standoff_documents(draw: st.DrawFn) -> Document:
    """A text with types and entity ids that standoff formats hold."""
    text = draw(TEXTS.filter(bool))
    mentions = [
        Mention(*s, draw(TYPES), draw(ENTITIES)) for s in draw(st.lists(spans(len(text)), max_size=4))
    ]
    return Document(draw(IDS), text, tuple(mentions))


@st.composite
def word_documents(draw: st.DrawFn) -> Document:
    """Words joined as column files join them, with flat mentions."""
    word = st.text(st.sampled_from("ab,#-\u00e9\u4e2d\ufeff\u00a0"), min_size=1, max_size=4)
    sentences = draw(st.lists(st.lists(word, min_size=1, max_size=5), min_size=2, max_size=3))
    words: list[Span] = []
    bounds: list[Span] = []
    mentions: list[Mention] = []
    place = 0
    for sentence in sentences:
        first = len(words)
        for each in sentence:
            words.append((place, place + len(each)))
            place += len(each) + 1
        bounds.append((words[first][0], words[-1][1]))
        while first < len(words):
            length = draw(st.integers(0, len(words) - first))
            if length:
                mentions.append(Mention(words[first][0], words[first + length - 1][1], draw(TYPES)))
            first += max(length, 1)
    text = "\n".join(map(" ".join, sentences))
    return Document(draw(IDS), text, tuple(mentions), tuple(words), tuple(bounds))


def corpora(documents: st.SearchStrategy[Document]) -> st.SearchStrategy[list[Document]]:
    return st.lists(documents, min_size=1, max_size=3, unique_by=lambda d: d.document_id.lower())


def ordered(documents: Sequence[Document]) -> list[Document]:
    """Documents by id, mentions as readers order them."""

    def key(mention: Mention) -> tuple[int, int, str, str]:
        return mention.start, -mention.end, mention.type, mention.entity_id or ""

    documents = [replace(d, mentions=tuple(sorted(d.mentions, key=key))) for d in documents]
    return sorted(documents, key=lambda d: d.document_id)
