from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document, Mention
from rayner.data.sections import Section, join_mentions, part_of, sections, to_be_cut

SIZES = st.integers(6, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(2, size - 2)))


@given(st.integers(0, 400), SIZES)
def test_sections_cover_the_text_and_overlap(length: int, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    found = sections("x" * length, size, overlap)
    assert found[0].begin == 0
    assert found[-1].end == length
    assert all(s.end - s.begin <= size for s in found)
    assert all(left.end - right.begin == overlap for left, right in pairwise(found))
    assert len(found) == 1 or length > size


@given(st.text(st.sampled_from("ab c"), max_size=200), SIZES, st.data())
def test_mentions_that_every_section_shows_come_back_once_each(
    text: str, sizes: tuple[int, int], data: st.DataObject
) -> None:
    """Whatever short mentions there are, each section finds those that it holds whole."""
    size, overlap = sizes
    widths = st.integers(1, max(1, (overlap - 1) // 2))
    spans = data.draw(st.sets(st.tuples(st.integers(0, len(text)), widths), max_size=20))
    mentions = tuple(Mention(s, s + w, "X", head=(s, s + 1)) for s, w in sorted(spans) if s + w <= len(text))
    document = Document("d", text, mentions)
    cut = sections(text, size, overlap)
    joined = join_mentions([(section, part_of(document, section).mentions) for section in cut])
    assert sorted(joined, key=lambda m: (m.start, m.end)) == list(mentions)


def test_mentions_of_two_sections_that_disagree_do_not_overlap() -> None:
    left, right = Section(0, 100), Section(80, 200)
    before = [Mention(85, 88, "X"), Mention(88, 93, "X"), Mention(95, 97, "X")]
    after = [Mention(84 - 80, 90 - 80, "X"), Mention(91 - 80, 92 - 80, "X"), Mention(110 - 80, 120 - 80, "X")]
    joined = join_mentions([(left, before), (right, after)])
    assert all(a.end <= b.start for a, b in pairwise(joined))
    assert joined[-1] == Mention(110, 120, "X")


def test_words_and_sentences_of_a_section_are_those_that_lie_whole_in_it() -> None:
    document = Document(
        "d", "ab cd ef gh", words=((0, 2), (3, 5), (6, 8), (9, 11)), sentences=((0, 5), (6, 11))
    )
    part = part_of(document, Section(1, 9))
    assert part.text == "b cd ef "
    assert part.words == ((2, 4), (5, 7))
    assert part.sentences == ()


def test_a_mention_that_only_the_next_section_has_is_not_cut_by_the_seam() -> None:
    found = join_mentions([(Section(0, 100), ()), (Section(80, 200), (Mention(8, 12, "X"),))])
    assert found == (Mention(88, 92, "X"),)


def test_what_begins_where_a_section_begins_is_in_it() -> None:
    mention = Mention(3, 5, "X", head=(4, 5))
    part = part_of(Document("d", "ab cd ef", (mention,), words=((0, 2), (3, 5), (6, 8))), Section(3, 8))
    assert part.words == ((0, 2), (3, 5))
    assert part.mentions == (Mention(0, 2, "X", head=(1, 2)),)


def test_words_and_sentences_that_are_not_in_order_count_as_none() -> None:
    text, words = "Ada ran. " * 60, tuple((start, start + 3) for start in range(0, 540, 9))
    given = Document("d", text, words=words, sentences=words, sentence_contexts=((),) * len(words))
    assert to_be_cut(given) == given
    for spans in (words[::-1], words[30:] + words[:30]):
        cut = to_be_cut(replace(given, words=spans, sentences=spans))
        assert (cut.words, cut.sentences, cut.sentence_contexts) == (None, None, None)
        assert cut.text == text
