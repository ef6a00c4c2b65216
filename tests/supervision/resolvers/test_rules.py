"""What the rules find in short texts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.schema import Document
from rayner.data.words import find_words
from rayner.supervision.pronouns import PRONOUNS, Agreement
from rayner.supervision.resolvers.noun_phrases import Tokens, find_mentions
from rayner.supervision.resolvers.quotations import quotations
from rayner.supervision.resolvers.rules import RuleResolver
from tests.supervision.resolvers.plain_rules import plain_chains


def chains(text: str) -> list[list[str]]:
    return [[text[a:b] for a, b in chain] for chain in RuleResolver()(Document("d", text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Emma met Mr. Darcy. She liked him.", [["Emma", "She"], ["Mr. Darcy", "him"]]),
        ("Charles Darwin sailed away. Years later Darwin wrote.", [["Charles Darwin", "Darwin"]]),
        ("John Smith came. John left. John Brown ran.", [["John Smith", "John"]]),
        ("Emma Smith came. Smith left. Emma ran.", [["Emma Smith", "Smith", "Emma"]]),
        ("The U.S. fell. The U.K. rose. The U.S. slept.", [["U.S", "U.S"]]),
        ("Peter hit him. Mary saw her. They saw them.", []),
        ("Emma saw her mother. Ann ran. Tom saw her.", [["Emma", "her"], ["Ann", "her"]]),
        ("Emma loves her three children. Emma saw her and ran.", [["Emma", "her", "Emma"]]),
        ("The mother of Tom loves him. Yet Tom hit him.", [["Tom", "him", "Tom"]]),
        ("He said that patients improved. She said that patients died.", []),
        ("You said that Emma ran. You said that Emma fell.", [["You", "You"], ["Emma", "Emma"]]),
        ("Here is a glass. We broke that glass.", [["a glass", "that glass"]]),
        ("They burned a gas. That gas fell.", [["a gas", "That gas"]]),
        ("The vitamin C. The vitamin C is new.", [["The vitamin C", "The vitamin C"], ["C", "C"]]),
        ("A dog sat on the mat. The dog barked at the mat.", [["A dog", "The dog"], ["the mat", "the mat"]]),
        ("A dog barked. A dog slept.", []),
        ("Mr. Smith met Mrs. Smith.", []),
        ("Emma saw herself in the glass.", [["Emma", "herself"]]),
        ("The girls came. They sang.", [["The girls", "They"]]),
        ("Emma's mother came. Emma's mother sang.", [["Emma's mother"] * 2, ["Emma", "Emma"]]),
        ("Emma's old dog came. Emma's dog ran.", [["Emma's old dog", "Emma's dog"], ["Emma", "Emma"]]),
        ("Emma's dog came. Emma's old dog ran.", [["Emma"] * 2]),
        ("It is true that the ship sank.", []),
        ("“I am cold,” said Emma. “I am warm,” said Tom.", []),
    ],
)
def test_links(text: str, expected: list[list[str]]) -> None:
    assert sorted(chains(text)) == sorted(expected)


@pytest.mark.parametrize("text", ["", " \n", "...", "nothing to see", "123 456"])
def test_a_text_without_mentions_has_no_chains(text: str) -> None:
    assert chains(text) == []


def test_a_pronoun_does_not_reach_over_four_sentences() -> None:
    between = "Nothing happened. " * 4
    assert chains(f"Emma slept. {between}She woke.") == []
    assert chains("Emma slept. Nothing happened. She woke.") == [["Emma", "She"]]


def test_outer_mentions_come_before_those_in_them() -> None:
    text = "Emma's mother gave her old hat away."
    tokens = Tokens.of(Document("d", text))
    found = [text[tokens.spans[m.first][0] : tokens.spans[m.last][1]] for m in find_mentions(tokens)]
    assert found == ["Emma's mother", "Emma", "her old hat", "her"]


@given(st.text(alphabet="abc HeShe the.,'\"\n", max_size=80))
def test_chains_are_apart_and_lie_in_the_text(text: str) -> None:
    found = RuleResolver()(Document("d", text))
    spans = [span for chain in found for span in chain]
    assert len(spans) == len(set(spans))
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(len(chain) > 1 for chain in found)


PEOPLE = ["Ada", "Kurt", "Emma", "Smith", "Smith", "Jones", "Mr.", "Mrs.", "of", "'s", "mother"]
PRONOUNS_AND_MORE = ["she", "he", "it", "they", "her", "him", "himself", "I", "you", "we", "saw", "and"]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a “ b ” c “ d ”", [0, 1, 1, 0, 0, 2, 2, 0]),
        # A speech in two paragraphs, and one of somebody else.
        ("“ a “ b ” c “ d ”", [1, 1, 1, 1, 0, 0, 2, 2, 0]),
        ("a ” b “ c ”", [0, 0, 0, 1, 1, 0]),
        ('" a " b " c "', [1, 1, 0, 0, 2, 2, 0]),
        ("`` a '' b `` c", [1, 1, 0, 0, 2, 2]),
        ('“ a " b “ c ”', [1, 1, 0, 0, 2, 2, 0]),
    ],
)
def test_words_are_in_quotations(text: str, numbers: list[int]) -> None:
    assert quotations(text, [match.span() for match in re.finditer(r"\S+", text)]) == numbers


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("‘I am Ada,’ said Ada. ‘I don’t know,’ said Kurt.", ["I am Ada,", "I don’t know,"]),
        ("'I am the dogs' friend,' said Ada. 'I don't know!'", ["I am the dogs' friend,", "I don't know!"]),
        ("' I am Ada , ' said Ada . ' I ran . '", ["I am Ada ,", "I ran ."]),
        ("‘I am Ada’, she said. The ‘Nautilus’ sank.", ["I am Ada", "Nautilus"]),
        ("'Tis the '90s. The boys' room.", []),
        ("“He said ‘I am’ twice,” said Bob.", ["He said ‘I am’ twice,"]),
        ("``I am,'' said Ada.", ["`I am,"]),
        ("«Je suis», dit-elle. »Ich bin«, sagte sie. „Ja“, sagte er.", ["Je suis", "Ich bin", "Ja"]),
        # Speeches of several paragraphs, and one whose end is missing.
        ("‘I came.\n\n‘I saw,’ she said. I ran.", ["I came.\n\n‘I saw,"]),
        ('"I came.\n\n"I saw," she said. "I ran."', ['I came.\n\n"I saw,', "I ran."]),
        ("“I came.\n\nI saw. “I ran.”", ["I came.", "I ran."]),
        ("— I am, he said.\n\n--You are, she said.\n\nI saw.", ["I am, he said.", "-You are, she said."]),
        ("He came — I saw him — and left.\n- a list", []),
    ],
)
def test_quotations_of_a_text(text: str, quoted: list[str]) -> None:
    spans = find_words(text)
    numbers = quotations(text, spans)
    places = {n: [i for i, number in enumerate(numbers) if number == n] for n in sorted(set(numbers) - {0})}
    # Each begins with its mark.
    assert [text[spans[p[1]][0] : spans[p[-1]][1]] for p in places.values()] == quoted


@pytest.mark.parametrize("marks", ["“”", "‘’", "''", '""'])
def test_who_speaks_is_who_spoke_in_the_same_quotation(marks: str) -> None:
    text = "<I am here; I ran,> she said. <I am old,> he said. <You lie; you know.>"
    assert chains(text.replace("<", marks[0]).replace(">", marks[1])) == [["I", "I"], ["You", "you"]]


def test_a_country_is_no_pronoun() -> None:
    assert chains("The US attacked. We were shocked. Our army fought us.") == [["We", "Our", "us"]]
    assert chains("IT is a field. He works in IT.") == []


def test_who_speaks_in_several_paragraphs_is_not_who_answers() -> None:
    text = "“I came early.\n\n“I saw nobody,” said Ann.\n\n“I am tired,” said Bob.\n\n“I hate it,” said Max."
    assert chains(text) == [["I", "I"]]


PHRASES_AND_MARKS = ["the", "the", "her", "old", "dog", "dog", "ship", ".", ".", "?", "“", "”", ","]


@given(st.lists(st.sampled_from(PEOPLE + PRONOUNS_AND_MORE + PHRASES_AND_MARKS), max_size=150))
def test_links_are_those_of_looking_at_all_entities(words: list[str]) -> None:
    document = Document("d", " ".join(words))
    assert RuleResolver()(document) == plain_chains(document)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("Then Name{0}x saw the thing{0}. She knew it was hers. I slept.", 100),
        ("They saw Ada Smith{0}.", 100),
        ("and she saw him", 500),
    ],
    ids=["people", "a family", "no full stop"],
)
def test_the_time_grows_with_the_text_alone(line: str, lines: int) -> None:
    """Twice as long a text with twice as many entities has twice as many comparisons, not four times."""
    counted = [0]

    def agrees(self: Agreement, other: Agreement) -> bool:
        counted[0] += 1
        return plain(self, other)

    plain = Agreement.agrees
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Agreement, "agrees", agrees)
        for count in (lines, 2 * lines):
            counted[0] = 0
            RuleResolver()(Document("d", " ".join(map(line.format, range(count)))))
            found.append(counted[0])
    assert 0 < found[1] < 2.7 * found[0]


def test_agreement_is_symmetric_and_tells_people_from_things() -> None:
    forms = list(PRONOUNS.values())
    assert all(a.agrees(b) == b.agrees(a) for a in forms for b in forms)
    assert not PRONOUNS["he"].agrees(PRONOUNS["she"])
    assert not PRONOUNS["it"].agrees(Agreement(3, False, "p"))
    assert PRONOUNS["she"].agrees(Agreement(3, False, "p"))
    assert PRONOUNS["they"].agrees(Agreement(3, None, None))
    assert not PRONOUNS["they"].agrees(Agreement(3, False, None))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The doctor came. She sat. He slept.", [["The doctor", "She"]]),
        ("The virus came. It grew.", [["The virus", "It"]]),
        ("J. Smith came. Smith slept.", [["J. Smith", "Smith"]]),
        ("Christmas came. He ate. In July she left. It was cold.", [["July", "It"]]),
        ("St. Louis is old. It is big. He saw St. Ann. She ran.", [["St. Louis", "It"], ["St. Ann", "She"]]),
        ("General Motors grew. It failed.", [["General Motors", "It"]]),
        ("General Grant came. He sat. General John Doe came. It sat.", [["General Grant", "He"]]),
        ("Good Friday came. He ate.", []),
        ("Joan Friday slept. She woke.", [["Joan Friday", "She"]]),
        ("June Bly came. June sat. She woke.", [["June Bly", "June", "She"]]),
        ("Saint Ann saw the town. It fell.", [["the town", "It"]]),
        ("Zelda June slept. She woke.", [["Zelda June", "She"]]),
    ],
)
def test_what_a_mention_says_of_gender_number_and_initials(text: str, expected: list[list[str]]) -> None:
    assert chains(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“We ran. Suddenly he fell. Did he? Suddenly he rose. I rose suddenly.”", [["he"] * 3]),
        ("He said, “Suddenly we ran.” They said, “Suddenly we ran.” I ran suddenly.", []),
        ("“I saw J. Gray. Mr. Gray is in gray St. Ives.”", [["J. Gray", "Mr. Gray"]]),
        ("“We saw him. Don't speak! Don't,” he said. You don't.", [["him", "he"]]),
    ],
)
def test_a_word_that_begins_a_sentence_of_a_quotation_is_no_name_for_that(
    text: str, expected: list[list[str]]
) -> None:
    assert chains(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Henry I, a king, ran. I like him.", [["Henry", "him"]]),
        ("I read Chapter I of Henry I. You told Mary I left.", [["I", "I"]]),
        ("My dog saw the mine. The mine or gold mine is mine.", [["My", "mine"], ["the mine", "The mine"]]),
        ("I told George I ran.", [["I", "I"]]),
        ("I gave her mine.", [["I", "mine"]]),
    ],
)
def test_a_roman_number_and_a_mine_are_not_the_narrator(text: str, expected: list[list[str]]) -> None:
    assert chains(text) == expected
