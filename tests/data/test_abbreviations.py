"""Abbreviations that documents explain."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rayner.data.abbreviations import LONGEST, expander, find_abbreviations, strings_of_mentions
from rayner.data.schema import Document, Mention


def pairs(text: str) -> list[tuple[str, str]]:
    return [(text[slice(*found.short)], text[slice(*found.long)]) for found in find_abbreviations(text)]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("Ataxia telangiectasia (AT) is rare.", "AT", "Ataxia telangiectasia"),
        ("We saw ataxia-telangiectasia ( A-T ) here.", "A-T", "ataxia-telangiectasia"),
        ("in heat shock transcription factor (HSF)", "HSF", "heat shock transcription factor"),
        ("glucose-6-phosphate dehydrogenase (G6PD)", "G6PD", "glucose-6-phosphate dehydrogenase"),
        ("APC (adenomatous polyposis coli) and", "APC", "adenomatous polyposis coli"),
        ("the von Hippel-Lindau disease (VHL; Lindau's) gene", "VHL", "von Hippel-Lindau disease"),
        ("a familial disorder of lipids (FDL, also HDL)", "FDL", "familial disorder of lipids"),
        ("malattia di Ménière (MdM) è", "MdM", "malattia di Ménière"),
        # The shortest run of words counts, not the one that begins earlier.
        ("Angelman and Alagille syndrome (AS)", "AS", "Alagille syndrome"),
        ("İstanbul Teknik Üniversitesi (İTÜ)", "İTÜ", "İstanbul Teknik Üniversitesi"),
        ("istanbul teknik üniversitesi (İTÜ)", "İTÜ", "istanbul teknik üniversitesi"),
        # A bracket is part of a word that goes on behind it.
        ("of (R)-alpha-methylhistamine (RAMH)", "RAMH", "(R)-alpha-methylhistamine"),
        ("(ataxia telangiectasia (AT))", "AT", "ataxia telangiectasia"),
        ("testosterone propionate [(TP) CAS: 57-85-2]", "TP", "testosterone propionate"),
        # White space does not part words in every script.
        ("国際連合(国連)は", "国連", "国際連合"),
        ("APC(adenomatous polyposis coli)は", "APC", "adenomatous polyposis coli"),
    ],
)
def test_a_short_form_and_what_explains_it(text: str, short: str, long: str) -> None:
    assert pairs(text) == [(short, long)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(AT)",
        "no letters in order (XYZ)",
        "tumours (n = 12) and (12)",
        "the AT gene (AT)",
        "a scan by MRI, (MRI) was made",
        '"PTSD" (PTSD)',
        "(APC)(APC)",
        "Retinal disease. Other things (RD) follow",
        "a word (X) and an open (bracket",
        "it fell (see the figure below) again",
        "2-phenoxyacetamide adenosine A(2A) receptors",
        "aminopropyl-phosphinic acid, the agonist R-(alpha)-methylhistamine",
        "EDM1, McKusick 132400) and COL9A2 (EDM2)",
        "type 1 (insulin-dependent) diabetes mellitus (IDDM)",
        "cells [in culture) (CIC)",
        "debrisoquine/sparteine type polymorphism (sparteine)",
        "doses of milligram/mg/kg (mg)",
        "more of [Na]o and [Ca]o (Ca)",
        # The combining marks of é and कि are in the middle of a word.
        "un re\u0301seau urbain (SU)",
        "किताब घर (तघ)",
        f"AB (alpha {'x' * 500} beta)",
        "words one two three four five six seven eight nine of a list (WL)",
    ],
)
def test_other_brackets_explain_nothing(text: str) -> None:
    assert pairs(text) == []


TEXT = (
    "Ataxia telangiectasia (AT) and CHM (choroideremia). AT patients, AT-like\nATM and CHM; "
    "glucose dehydrogenase  (GD) deficiency."
)


@pytest.mark.parametrize(
    ("mention", "string"),
    [
        ("AT patients", "Ataxia telangiectasia patients"),
        ("AT-like", "Ataxia telangiectasia-like"),
        ("ATM", "ATM"),
        ("CHM;", "choroideremia;"),
        ("Ataxia telangiectasia (AT)", "Ataxia telangiectasia"),
        ("CHM (choroideremia)", "choroideremia"),
        ("glucose dehydrogenase  (GD) deficiency", "glucose dehydrogenase deficiency"),
        ("like\nATM", "like ATM"),
    ],
)
def test_a_mention_has_the_long_form(mention: str, string: str) -> None:
    start = TEXT.rindex(mention)
    document = Document("1", TEXT, (Mention(start, start + len(mention), "Disease"),))
    assert strings_of_mentions(document, abbreviations=True) == [string]
    assert strings_of_mentions(document) == [" ".join(mention.split())]


def test_the_first_explanation_counts() -> None:
    text = "Angelman syndrome (AS), ankylosing spondylitis (AS), AS"
    assert expander(text, find_abbreviations(text))((len(text) - 2, len(text))) == "Angelman syndrome"


@pytest.mark.parametrize(
    ("mention", "string"),
    [
        ("AFAP", "attenuated familial adenomatous polyposis"),
        ("attenuated FAP", "attenuated familial adenomatous polyposis"),
        ("YX", "y of x of YX"),
        ("XY", "x of y of XY"),
        ("OT", "outer skin tumour"),
    ],
)
def test_short_forms_within_a_long_form_are_written_out_once(mention: str, string: str) -> None:
    text = "attenuated FAP (AFAP), familial adenomatous polyposis (FAP), x of YX (XY), y of XY (YX)"
    text += ", outer skin (SK) tumour (OT)"
    start = text.index(mention)
    assert expander(text, find_abbreviations(text))((start, start + len(mention))) == string


def test_a_mention_that_holds_a_definition_has_its_own_long_form() -> None:
    text = "Antigen presenting cells (APC) were seen in adenomatous polyposis coli (APC), APC"
    start = text.index("adenomatous")
    string_of = expander(text, find_abbreviations(text))
    assert string_of((start, text.rindex(","))) == "adenomatous polyposis coli"
    assert string_of((len(text) - 3, len(text))) == "Antigen presenting cells"


@pytest.mark.parametrize(
    ("mention", "string"),
    [
        ("telangiectasia (AT)", "telangiectasia"),
        ("telangiectasia (AT) gene", "telangiectasia gene"),
        ("(adenomatous polyposis coli)", "adenomatous polyposis coli"),
        ("polyposis coli)", "polyposis coli"),
        ("outer skin (SK) tumour (OT)", "outer skin tumour"),
        ("skin (SK) tumour (OT)", "skin tumour"),
    ],
)
def test_a_mention_that_begins_within_a_definition_has_its_long_form_once(mention: str, string: str) -> None:
    text = "ataxia telangiectasia (AT) gene, APC (adenomatous polyposis coli), outer skin (SK) tumour (OT)"
    start = text.index(mention)
    assert expander(text, find_abbreviations(text))((start, start + len(mention))) == string


def test_the_longest_short_form_counts_that_is_a_word() -> None:
    text = "alpha beta (AB) and alpha beta 1 (AB-1)"
    string_of = expander(f"{text}: AB-1, AB-12", find_abbreviations(text))
    assert string_of((len(text) + 2, len(text) + 13)) == "alpha beta 1, alpha beta-12"


@pytest.mark.parametrize("word", ["AT\u0301", "E\u0301AT", "ATि"])
def test_a_combining_mark_is_part_of_a_word(word: str) -> None:
    text = f"ataxia telangiectasia (AT), {word}"
    assert expander(text, find_abbreviations(text))((text.index(",") + 2, len(text))) == word


def test_a_mention_is_not_compared_with_every_definition_of_a_long_text() -> None:
    class Place(int):
        compared = 0

        def __gt__(self, other: int) -> bool:
            Place.compared += 1
            return int(self) > other

    line = "alpha beta (AB) "
    found = find_abbreviations(line * 1000)
    found = [one._replace(long=(one.long[0], Place(one.long[1]))) for one in found]
    string_of = expander(line * 1000, found)
    assert {string_of((begin, begin + 15)) for begin in range(0, 16_000, 16)} == {"alpha beta"}
    assert 1000 <= Place.compared <= 2000


PIECES = st.sampled_from(
    ["alpha ", "Beta-", "gamma\n", "(", ")", "AB", "ABG ", "; ", ". ", "é", "\u2028", "["]
)


@given(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=40)), st.data())
@example("alpha Beta (AB) (AB)", None)
def test_offsets_are_those_of_the_text(text: str, data: st.DataObject | None) -> None:
    found = find_abbreviations(text)
    for short, long, definition in found:
        form, explained = text[slice(*short)], text[slice(*long)]
        letters = iter(explained.lower())
        assert 2 <= len(form) <= LONGEST < len(form) + 9
        assert len(explained) > len(form)
        assert all(c in letters for c in form.lower() if c.isalnum())
        assert definition == (min(short[0], long[0]), definition[1])
        assert text[definition[1] - 1] == ")"
        assert max(short[1], long[1]) < definition[1]
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2))) if data else (0, len(text))
    assert expander(text, ())((start, end)) == " ".join(text[start:end].split())
    string = expander(text, found)((start, end))
    assert string == " ".join(string.split())
