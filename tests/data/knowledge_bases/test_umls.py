"""Tables of UMLS: names, semantic types and merged concepts."""

from __future__ import annotations

import pytest

from rayner.data.knowledge_bases import read_knowledge_base
from rayner.data.schema import Entity
from rayner.errors import KnowledgeBaseError


def concept(cui: str, name: str, language: str = "ENG", rank: str = "P|PF|Y", suppress: str = "N") -> str:
    status, form, preferred = rank.split("|")
    cells = [
        cui,
        language,
        status,
        "L1",
        form,
        "S1",
        preferred,
        "A1",
        "",
        "",
        "",
        "MSH",
        "MH",
        "D1",
        name,
        "0",
    ]
    return "|".join([*cells, suppress, "", ""]) + "\n"


def test_umls_has_names_and_types_in_two_files(file):
    names = file(
        "MRCONSO.RRF",
        concept("C0000001", "Podagra", rank="S|PF|Y")
        + concept("C0000001", "Gout")
        + concept("C0000001", "Gicht", "GER")
        + concept("C0000001", "GOUT (old)", rank="S|VO|Y", suppress="O")
        + concept("C0000002", "Asthma")
        + "C0000002|ENG|Asthma\n",
    )
    types = file(
        "MRSTY.RRF",
        "C0000001|T047|B2.2.1.2.1|Disease or Syndrome|AT1|256|\n"
        "C0000001|T046|B2.2.1.2|Pathologic Function|AT2||\n"
        "C0000009|T047|B2.2.1.2.1|Disease or Syndrome|AT3||\n",
    )
    base = read_knowledge_base([names, types])
    assert base.formats == ("umls",)
    assert base.entities == [
        Entity("C0000001", "Gout", ("Podagra",), "Disease or Syndrome"),
        Entity("C0000002", "Asthma"),
    ]
    assert base.ignored == {
        "name in GER": 1,
        "suppressed name": 1,
        "second type": 1,
        "type of an entity without a name": 1,
    }
    assert [(reject.where.rpartition(":")[2], reject.what) for reject in base.rejects] == [
        ("6", "3 cells between bars")
    ]


def test_ids_of_merged_concepts_are_further_ids(file):
    names = file("MRCONSO.RRF", concept("C0000001", "Gout") + concept("C0000002", "Asthma"))
    merged = file(
        "MRCUI.RRF",
        "C0000007|2019AA|SY|||C0000001|Y|\nC0000008|2019AA|RO||R1|C0000002|N|\nC0000009|1993AA|DEL|||||\n"
        "C0000010|2020AA|SUBX|||||\n",
    )
    base = read_knowledge_base([names, merged])
    assert base.formats == ("umls",)
    assert [entity.other_ids for entity in base.entities] == [("C0000007",), ()]
    assert (base.rejects, base.ignored) == ([], {"old concept that is none of another's names now": 3})
    strange = file("MRCUI-2.RRF", "C0000011|2019AA|SY|||C0000099|Y|\n")
    ignored = read_knowledge_base([names, strange]).ignored
    assert ignored == {"old concept without a successor in the rows before": 1}


def test_another_table_of_umls_is_no_dictionary(file):
    names = file("MRCONSO.RRF", concept("C0000001", "Gout", suppress="O") + concept("C0000002", "Asthma"))
    definitions = file("MRDEF.RRF", "C0000001|A1|AT1||NCI|A painful joint.|N||\n")
    with pytest.raises(KnowledgeBaseError, match=r"MRDEF\.RRF: no row of a table of UMLS that is read"):
        read_knowledge_base([names, definitions])


def test_umls_without_english_is_read_in_the_language_of_most(file):
    spanish = concept("C0000001", "Gota", "SPA") + concept("C0000001", "Gicht", "GER")
    base = read_knowledge_base(file("MRCONSO.RRF", concept("C0000002", "Asma", "SPA") + spanish))
    assert [entity.name for entity in base.entities] == ["Asma", "Gota"]
    assert base.ignored == {"name in GER": 1}
