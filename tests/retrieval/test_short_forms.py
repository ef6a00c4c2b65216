"""Abbreviations that a knowledge base explains."""

from __future__ import annotations

import time

import pytest

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.retrieval.names import names_of
from rayner.retrieval.short_forms import expand, expansions, is_short_form, split_short_form


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("APC", "adenomatous polyposis coli"),
        ("HDFS", "Hadoop distributed file system"),
        ("DB2", "Database 2"),
    ],
)
def test_letters_in_order_make_a_short_form(short: str, long: str) -> None:
    assert is_short_form(short, long)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("APC", "coli adenomatous polyposis"),
        ("Java", "Java Virtual Machine"),
        ("AWK", "GNU Awk"),
        ("JAVA", "Java Virtual Access"),
        ("A", "adenomatous"),
        ("", "adenomatous"),
        ("--", "a-b"),
        ("APCD", "APC"),
        ("A B", "alpha beta"),
    ],
)
def test_other_names_are_none(short: str, long: str) -> None:
    assert not is_short_form(short, long)


def test_a_short_form_in_brackets_is_split_off() -> None:
    assert split_short_form("Huntington disease (HD)") == ("Huntington disease", "HD")
    assert split_short_form("Huntington disease (juvenile)") is None
    assert split_short_form("(HD)") is None


def test_a_long_name_and_many_aliases_take_little_time() -> None:
    """A definition in place of a name took minutes, and so did an entity with thousands of aliases."""
    begun = time.process_time()
    assert split_short_form("a (b " * 5000) is None
    assert split_short_form("a [b " * 5000 + "(AXB)") is None
    assert split_short_form("alpha " * 5000 + " ( beta  (AB)") == ("alpha " * 5000 + " ( beta", "AB")
    aliases = (f"{letter}X{number}" for letter in "GH" for number in range(2000))
    others = [f"long name {number}" for number in range(3000)]
    assert expansions([Entity("1", "gene", (*aliases, *others, "Gene x 7"))]) == {"GX7": "Gene x 7"}
    assert time.process_time() - begun < 4


def test_an_abbreviation_of_two_entities_is_not_expanded() -> None:
    base = [
        Entity("1", "Active Directory", ("AD",)),
        Entity("2", "atopic dermatitis", ("AD",)),
        Entity("3", "Lightweight Access Protocol (LAP)"),
    ]
    assert expansions(base) == {"LAP": "Lightweight Access Protocol"}


def test_an_abbreviation_that_another_entity_has_without_explaining_it_is_not_expanded() -> None:
    disease, gene = Entity("1", "adenomatous polyposis coli", ("APC",)), Entity("2", "APC gene", ("APC",))
    assert expansions([disease]) == {"APC": "adenomatous polyposis coli"}
    assert expansions([disease, gene]) == expansions([gene, disease]) == {}


def test_abbreviations_are_those_of_composed_names() -> None:
    apart = [Entity("1", "Ethe\u0301rique Gaz (E\u0301G)")]
    assert expansions(apart) == expansions([Entity("1", "Eth\u00e9rique Gaz (\u00c9G)")])


def test_expansion_leaves_a_text_that_is_the_abbreviation() -> None:
    known = {"APC": "adenomatous polyposis coli"}
    assert expand("attenuated APC, mild", known) == "attenuated adenomatous polyposis coli, mild"
    assert expand(" APC ", known) == " APC "
    assert expand("APCs and capc", known) == "APCs and capc"


def test_an_abbreviation_that_two_entities_write_out_alike_is_not_expanded() -> None:
    names = ("central processing unit", ("CPU",))
    assert expansions([Entity("1", *names), Entity("2", *names)]) == {}


def test_an_alias_is_split_as_a_name_is() -> None:
    entities = [Entity("1", "name", ("Long Form (LF)",))]
    assert "LF" in names_of(entities, IndexSettings(abbreviations=True)).table.column(0).to_pylist()
