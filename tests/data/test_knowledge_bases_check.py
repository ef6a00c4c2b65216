"""What a check of a knowledge base finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayner.data.knowledge_base_check import check_knowledge_base, find_cycles
from rayner.data.knowledge_bases import KnowledgeBase, read_knowledge_base
from rayner.data.mention_strings import ids_of
from rayner.data.schema import Entity


def findings_of(*entities: Entity, parents=None):
    places = [f"kb:{number}" for number in range(1, len(entities) + 1)]
    return check_knowledge_base(KnowledgeBase(list(entities), places, parents or {}))


GOUT, ASTHMA = Entity("1", "gout", ("podagra",)), Entity("2", "asthma", ("wheeze",))


def test_a_good_base_has_no_finding():
    assert (
        findings_of(GOUT, ASTHMA, Entity("3", "Ménière’s disease", ("Sjögren", "β-Thalassämie", "病"))) == []
    )


def test_a_name_of_two_entities_is_ambiguous_in_any_case():
    (finding,) = findings_of(GOUT, ASTHMA, Entity("3", "STRASSE", ("Gout", "Straße")))
    assert (finding.kind, finding.severity, finding.where) == ("ambiguous name", "warning", "kb:3")
    assert "'1', '3'" in finding.what


def test_names_that_differ_in_how_marks_are_written_are_one():
    (finding,) = findings_of(GOUT, Entity("2", "caf\u00e9", ("inn",)), Entity("3", "cafe\u0301", ("bar",)))
    assert (finding.kind, finding.where) == ("ambiguous name", "kb:3")


@pytest.mark.parametrize("name", ["...", "\u200b", "--"])
def test_a_name_that_no_mention_finds_is_a_warning(name):
    (finding,) = findings_of(GOUT, Entity("2", "asthma", (name,)))
    assert (finding.kind, finding.severity) == ("name never found", "warning")
    assert "'2' has a name that no mention can find, only punctuation" in finding.what


def test_a_name_is_faulty_once():
    (finding,) = findings_of(GOUT, Entity("2", "asthma", ("\x07",)))
    assert finding.kind == "encoding"


def test_a_further_id_of_several_entities_is_a_warning():
    gout, asthma = (replace(entity, other_ids=("OLD:7", "1")) for entity in (GOUT, ASTHMA))
    (finding,) = findings_of(gout, asthma)
    assert (finding.kind, finding.severity, finding.where) == ("shared id", "warning", "kb:2")
    assert finding.what == "1 further id of several entities: 'OLD:7'; 'OLD:7' is one of '1', '2'"


def test_an_id_that_means_none_elsewhere_is_a_warning():
    (finding,) = findings_of(GOUT, ASTHMA, Entity("null", "croup", ("laryngitis",)))
    assert (finding.kind, finding.severity, finding.where) == ("id of none", "warning", "kb:3")
    assert finding.what == "1 id that corpora write for no entity: 'null'"


def test_an_id_with_the_mark_between_ids_is_a_warning():
    (finding,) = findings_of(GOUT, ASTHMA, Entity("A|B", "croup", ("laryngitis",)))
    assert (finding.kind, finding.severity, finding.where) == ("joining id", "warning", "kb:3")
    assert "1 of 3 ids hold `|`" in finding.what
    assert finding.what.endswith(": 'A|B'")
    # Alone it is one id where it is an entity's; with others it is not.
    entity_of = {"A|B": "A|B", "1": "1"}.get
    assert ids_of("A|B", entity_of) == ("A|B",)
    assert ids_of("A|B|1", entity_of) == ("A", "B", "1")


@pytest.mark.parametrize("name", ["M\ufffdnire", "MÃ©niÃ¨re", "Sjâ€™s", "a\x00b", "Ð±Ð¾Ð»ÑŒ"])
def test_encoding_faults_are_errors(name):
    (finding,) = findings_of(GOUT, Entity("2", "asthma", (name,)))
    assert (finding.kind, finding.severity, finding.where) == ("encoding", "error", "kb:2")


def test_one_entity_and_none_with_an_alias():
    assert [finding.kind for finding in findings_of(Entity("1", "gout"))] == ["without alias", "one entity"]
    many = [Entity(str(number), f"name {number}") for number in range(9)]
    (finding,) = findings_of(*many)
    assert "9 of 9" in finding.what
    assert "and 4 more" in finding.what


def test_a_long_name_is_a_warning():
    (finding,) = findings_of(GOUT, Entity("2", "x" * 10_000, ("y",)))
    assert finding.kind == "long name"
    assert len(finding.what) < 200


def test_cycles_and_parents_that_are_no_entities():
    parents = {"1": ("2", "7"), "2": ("1",)}
    found = findings_of(GOUT, ASTHMA, parents=parents)
    assert [(finding.kind, finding.severity) for finding in found] == [
        ("unknown parent", "warning"),
        ("cycle", "error"),
    ]
    assert "1 -> 2 -> 1" in found[1].what


def test_cycles_are_found_once_at_any_depth():
    assert find_cycles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []
    assert find_cycles({"a": ["a"]}) == [["a"]]
    deep = {str(n): [str(n + 1)] for n in range(5000)}
    assert find_cycles(deep) == []
    deep["5000"] = ["4999"]
    assert find_cycles(deep) == [["4999", "5000"]]


def test_what_the_reader_rejected_or_merged_is_found_too(tmp_path):
    path = tmp_path / "kb.jsonl"
    rows = ['{"id": 1, "name": "a", "aliases": ["x"]}', '{"id": 1, "name": "A"}', '{"id": 1, "name": "b"}']
    path.write_text("\n".join([*rows, '{"id": 2, "name": ""}', '{"id": 3, "name": "c", "aliases": ["y"]}']))
    found = check_knowledge_base(read_knowledge_base(path))
    assert [(f.kind, f.severity, f.where) for f in found] == [
        ("duplicate id", "error", f"{path}:3"),
        ("empty name", "error", f"{path}:4"),
        ("duplicate id", "warning", f"{path}:2"),
    ]
