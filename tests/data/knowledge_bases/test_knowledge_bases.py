"""Each format of knowledge bases on small files, what is merged, and the way there and back."""

from __future__ import annotations

import gzip
import json
import time
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayner.data.knowledge_bases import Columns, detect_format, read_knowledge_base, write_knowledge_base
from rayner.data.knowledge_bases.builder import Builder
from rayner.data.schema import Entity
from rayner.errors import KnowledgeBaseError

SOME = [
    Entity("D1", "asthma", ("bronchial asthma", "Asthma, Bronchial"), "Disease", "Wheezing."),
    Entity("D2", "gout", (), None, None),
    Entity("D3", "anaemia", other_ids=("OMIM:1", "D4")),
]


@pytest.mark.parametrize("name", ["kb.parquet", "kb.jsonl", "kb.jsonl.gz"])
def test_what_is_written_reads_back(tmp_path, name):
    assert write_knowledge_base(SOME, tmp_path / name) == len(SOME)
    base = read_knowledge_base(tmp_path / name)
    assert base.entities == SOME
    assert not base.repaired
    assert not base.rejects
    assert not base.ignored


def test_a_base_without_other_ids_is_read_as_before(tmp_path):
    table = pa.Table.from_pylist([{"entity_id": "1", "name": "a", "aliases": ["b"]}])
    pq.write_table(table, tmp_path / "kb.parquet")
    assert read_knowledge_base(tmp_path / "kb.parquet").entities == [Entity("1", "a", ("b",))]


def test_other_ids_of_rows(file):
    expected = [Entity("1", "a", ("x",), other_ids=("8", "7")), Entity("2", "c")]
    base = read_knowledge_base(file("kb.csv", "id,name,aliases,other_ids\n1,a,x,8|7| 8|1|\n2,c,,\n"))
    assert base.entities == expected
    assert not base.ignored
    rows = '{"id": "1", "name": "a", "aliases": ["x"], "other_ids": ["8", "7"]}\n{"id": "2", "name": "c"}\n'
    base = read_knowledge_base(file("kb.jsonl", rows + '{"id": "3", "name": "d", "other_ids": [7.5]}\n'))
    assert base.entities == expected
    assert [reject.what for reject in base.rejects] == ["the other_ids [7.5] are not a list of ids"]


def test_parents_in_one_cell(file):
    table, rows = (
        "id,name,parents\n1,a,2|3\n2,b,\n",
        '{"id": 1, "name": "a", "parents": "2|3"}\n{"id": 2, "name": "b"}',
    )
    for name, content in (("kb.csv", table), ("kb.jsonl", rows)):
        base = read_knowledge_base(file(name, content))
        assert base.parents == {"1": ("2", "3")}
        assert [entity.entity_id for entity in base.entities] == ["1", "2"]
        assert not base.rejects


def test_ids_that_are_integers(file):
    row = '{"id": 1, "name": "a", "other_ids": [8, "7"], "parents": [2]}'
    base = read_knowledge_base(file("kb.jsonl", f"{row}\n"))
    assert base.entities == [Entity("1", "a", other_ids=("8", "7"))]
    assert not base.rejects


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda s: s == s.strip())


@given(st.dictionaries(TEXT, st.lists(TEXT, min_size=1, unique=True), min_size=1), st.booleans())
def test_any_names_come_back(tmp_path_factory, names, as_json):
    path = tmp_path_factory.getbasetemp() / ("any.jsonl" if as_json else "any.parquet")
    entities = [Entity(id_, name, tuple(aliases)) for id_, (name, *aliases) in names.items()]
    write_knowledge_base(entities, path)
    assert read_knowledge_base(path).entities == entities


def test_a_table_with_a_column_of_aliases(file):
    path = file("kb.csv", 'ID,Label,synonyms,note\n1,"a, b",x|y,n\n2,c,,\n')
    base = read_knowledge_base(path)
    assert base.entities == [Entity("1", "a, b", ("x", "y")), Entity("2", "c")]
    assert base.formats == ("columns",)
    assert base.ignored == {"column note": 1}
    assert not base.repaired  # an empty cell is no alias
    assert base.places == [f"{path}:2", f"{path}:3"]


def test_a_table_of_one_alias_a_row_repeats_id_and_name(file):
    base = read_knowledge_base(file("kb.tsv", "id\tname\talias\n1\ta\tx\n1\ta\ty\n2\tb\tz\n"))
    assert base.entities == [Entity("1", "a", ("x", "y")), Entity("2", "b", ("z",))]
    assert not base.repeats
    assert not base.repaired


def test_a_table_without_aliases_has_a_name_a_row(file):
    base = read_knowledge_base(file("kb.txt", 'id\tname\n1\t5" gun\n1\tcannon\n1\tcannon\n'))
    assert base.entities == [Entity("1", '5" gun', ("cannon",))]
    assert base.repaired == {"duplicate alias dropped": 1}


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_columns_are_taken_by_the_names_given(file, suffix):
    rows = {
        "csv": "no,de,also\n7,Rind,Kuh|Ochse\n",
        "jsonl": '{"no": 7, "de": "Rind", "also": "Kuh|Ochse"}\n',
    }
    columns = Columns("no", "de", "also")
    base = read_knowledge_base(file(f"kb.{suffix}", rows[suffix]), columns=columns)
    assert base.entities == [Entity("7", "Rind", ("Kuh", "Ochse"))]


def test_esappmod_entities_and_mentions_are_one_base_in_any_order(file):
    entities = {
        "0": {"entity_id": 5, "entity_name": "Java", "entity_type_name": "Lang", "external_link": "{}"}
    }
    mentions = {
        "0": {"entity_id": 5, "mentions": ["java", "Java", "J2SE"]},
        "1": {"entity_id": 6, "mentions": ["C"]},
    }
    first = file("e.json", json.dumps({"version": "1", "data": entities}, indent=1))
    second = file("m.json", json.dumps({"label": "entity_id", "data": mentions}, indent=1))
    expected = [Entity("5", "Java", ("java", "J2SE"), "Lang"), Entity("6", "C")]
    for paths in ([first, second], [second, first]):
        base = read_knowledge_base(paths)
        assert base.entities == expected
        assert base.formats == ("esappmod",)
        assert base.repaired == {"duplicate alias dropped": 1, "first alias taken for the name": 1}
        assert base.ignored == {"field external_link": 1}


def test_biosyn_reads_a_line_an_entity_or_a_line_a_name(file):
    base = read_knowledge_base(file("a.txt", "C1|613097||Tooth Agenesis, 6|STHAG6\nC2||Gout\n"))
    tooth = Entity("C1", "Tooth Agenesis, 6", ("STHAG6",), other_ids=("613097",))
    assert base.entities == [tooth, Entity("C2", "Gout")]
    assert not base.ignored
    base = read_knowledge_base(file("b.txt", "C1||gout\nC1||gouty arthritis\n"))
    assert base.entities == [Entity("C1", "gout", ("gouty arthritis",))]
    assert base.formats == ("biosyn",)
    base = read_knowledge_base(
        file("c.txt", "C1||gout\nC1||gouty arthritis\nC1||podagra|foot gout\nC1||tophi\n")
    )
    assert base.entities == [Entity("C1", "gout", ("gouty arthritis", "podagra", "foot gout", "tophi"))]
    assert not base.rejects


def test_pairs_are_ids_and_names_without_a_header(file, tmp_path):
    packed = tmp_path / "kb.txt.gz"
    packed.write_bytes(gzip.compress(b"C1\tgout\t\nC1\tgouty\tOMIM:1\n"))
    base = read_knowledge_base(packed)
    assert base.entities == [Entity("C1", "gout", ("gouty",))]
    assert base.ignored == {"further column": 1}
    assert base.formats == ("pairs",)


CTD = """# Report created: today
# Fields:
# DiseaseName\tDiseaseID\tAltDiseaseIDs\tDefinition\tParentIDs\tTreeNumbers\tSynonyms
#
Gout\tMESH:D1\tDO:1|DO:DOID:1|OMIM:2\tHurts.\tMESH:D0|MESH:D9\tC05\tGouts|Podagra
Asthma\tMESH:D2\t\t\t\t\t
"""


def test_ctd_has_its_columns_in_a_comment(file):
    base = read_knowledge_base(file("CTD_diseases.tsv", CTD))
    assert base.formats == ("ctd",)
    assert base.entities == [
        Entity("MESH:D1", "Gout", ("Gouts", "Podagra"), None, "Hurts.", ("DO:1", "DOID:1", "OMIM:2")),
        Entity("MESH:D2", "Asthma"),
    ]
    assert base.parents == {"MESH:D1": ("MESH:D0", "MESH:D9")}
    assert base.ignored == {"column TreeNumbers": 1}


def test_ctd_may_have_commas(file):
    comma = CTD.replace("Hurts.", '"Hurts, and how"').replace("\t", ",")
    base = read_knowledge_base(file("CTD_diseases.csv", comma))
    assert base.formats == ("ctd",)
    assert [(e.entity_id, e.name, e.description) for e in base.entities] == [
        ("MESH:D1", "Gout", "Hurts, and how"),
        ("MESH:D2", "Asthma", None),
    ]
    assert not base.rejects


@pytest.mark.parametrize("comment", ["#", "# Report contents: DiseaseName, MeSH ID", "# a Name, an ID"])
def test_ctd_has_comments_before_its_columns(file, comment):
    base = read_knowledge_base(file("CTD_diseases.tsv", f"{comment}\n{CTD}"))
    assert [entity.entity_id for entity in base.entities] == ["MESH:D1", "MESH:D2"]
    with pytest.raises(KnowledgeBaseError):
        read_knowledge_base(file("others.csv", f"{comment}\nsome,thing\nQ1,Ada\n"))


def test_ctd_has_other_columns_for_chemicals_and_genes(file):
    comment = "# Report created\n# Fields:\n# "
    chemicals = "ChemicalName\tChemicalID\tCasRN\tMESHSynonyms\tCTDCuratedSynonyms\n#\n"
    chemicals += "lead\tMESH:D7\t7439\tPb\tplumb|Blei\n"
    base = read_knowledge_base(file("CTD_chemicals.tsv", comment + chemicals))
    assert base.entities == [Entity("MESH:D7", "lead", ("Pb", "plumb", "Blei"))]
    assert base.ignored == {"column CasRN": 1}
    genes = "GeneSymbol\tGeneName\tGeneID\tAltGeneIDs\tSynonyms\n#\nAPC\tadenoma gene\t324\t9\tDP2|DP3\nX\n"
    # Some have a symbol and no name.
    base = read_knowledge_base(file("CTD_genes.tsv", f"{comment}{genes}XYZ\t\t7\t\tX1\n"))
    first = Entity("324", "adenoma gene", ("APC", "DP2", "DP3"), other_ids=("9",))
    assert base.entities == [first, Entity("7", "XYZ", ("X1",))]
    assert [reject.what for reject in base.rejects] == ["1 cell under 5 columns"]


OBO = """format-version: 1.2
default-namespace: disease

[Term]
id: A:1
name: root
def: "Top, with \\"quotes\\"." [x:y]
synonym: "base" EXACT []
xref: NO:WHERE

[Term]
id: A:2
name: leaf
namespace: x
alt_id: A:9
is_a: A:1 ! root
is_a: A:77 {source="x"} ! not in this file
relationship: unheard_of A:78

[Term]
id: A:3
name: old
is_obsolete: true

[Term]
id: A:4
name: obsolete leaf
alt_id: A:10
is_obsolete: true
replaced_by: A:5

[Term]
id: A:5
name: obsolete leaf, too
is_obsolete: true
replaced_by: A:2

[Term]
id: A:1
name: root again
"""


def test_obo_terms_with_links_out_of_the_file(file):
    pytest.importorskip("pronto")
    path = file("a.obo", OBO)
    base = read_knowledge_base(path)
    assert base.formats == ("obo",)
    assert base.entities[0] == Entity("A:1", "root", ("base",), "disease", 'Top, with "quotes".')
    assert [(entity.entity_id, entity.type) for entity in base.entities] == [("A:1", "disease"), ("A:2", "x")]
    assert base.places == [f"{path}:5", f"{path}:12"]
    assert base.parents == {"A:2": ("A:1", "A:77")}
    assert base.entities[1].other_ids == ("A:9", "A:4", "A:10", "A:5")
    assert base.ignored == {"obsolete term": 1}
    assert [(reject.kind, reject.where) for reject in base.rejects] == [("duplicate id", f"{path}:39")]


def test_an_obsolete_term_that_a_further_id_replaced_is_one_too(file):
    pytest.importorskip("pronto")
    terms = "[Term]\nid: X:1\nname: a\nalt_id: X:7\n\n[Term]\nid: X:2\nname: b\nis_obsolete: true\n"
    base = read_knowledge_base(
        file("a.obo", f"format-version: 1.2\nontology: x\n\n{terms}replaced_by: X:7\n")
    )
    assert [(entity.entity_id, entity.other_ids) for entity in base.entities] == [("X:1", ("X:7", "X:2"))]
    assert not base.ignored


def test_an_id_that_is_there_twice_is_merged_where_names_agree(file):
    rows = [
        {"entity_id": "1", "name": "Gout", "aliases": ["podagra"]},
        {"entity_id": "1", "name": "PODAGRA", "aliases": ["gouty"]},
        {"entity_id": "1", "name": "asthma"},
    ]
    path = file("kb.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    base = read_knowledge_base(path)
    assert base.entities == [Entity("1", "Gout", ("podagra", "PODAGRA", "gouty"))]
    assert [repeat.where for repeat in base.repeats] == [f"{path}:2"]
    (reject,) = base.rejects
    assert (reject.kind, reject.where, reject.entity_id) == ("duplicate id", f"{path}:3", "1")


def test_corpora_are_read_whole(corpora):
    esappmod = corpora / "esappmod"
    mentions = read_knowledge_base(esappmod / "train.json")
    assert len(mentions.entities) == 640
    assert mentions.counts()["names"] + mentions.repaired["duplicate alias dropped"] == 4525
    both = read_knowledge_base([esappmod / "tca_entities.json", esappmod / "train.json"])
    assert len(both.entities) == 698
    assert both.counts()["names"] + both.repaired["duplicate alias dropped"] == 698 + 4525
    medic = read_knowledge_base(corpora / "medic-dictionary" / "medic_06Jul2012.txt")
    assert (medic.formats, len(medic.entities)) == (("biosyn",), 11915)
    pairs = read_knowledge_base(corpora / "ncbi-normalization-pairs" / "entity_kb.txt.gz")
    assert (pairs.formats, len(pairs.entities)) == (("pairs",), 9656)
    assert pairs.counts()["names"] + pairs.repaired["duplicate alias dropped"] == 68936
    assert not any(base.rejects for base in (mentions, both, medic, pairs))


def test_the_format_is_named(file):
    assert detect_format(file("a", '{"entity_id": "1", "name": "x"}\n')) == "jsonl"
    assert detect_format(file("b", "name,id\nx,1\n")) == "columns"
    assert detect_format(file("c", "1\tx\n")) == "pairs"


@pytest.mark.parametrize("repeats", ["never", "names"])
def test_rows_of_one_id_cost_as_much_as_rows_of_many(repeats: Literal["never", "names"]) -> None:
    def seconds(ids: int) -> float:
        builder, begun = Builder(), time.process_time()
        for row in range(6000):
            builder.add(str(row % ids), "gout", "here", aliases=[f"gout {row}"], repeats=repeats)
        assert sum(len(entry.aliases) for entry in builder.entries.values()) == 6000
        assert not builder.rejects
        return time.process_time() - begun

    assert seconds(1) < 10 * seconds(6000)


def test_an_entity_may_be_called_data(file):
    rows = [
        {"entity_id": "1", "entity_name": "data", "mentions": []},
        {"entity_id": "2", "entity_name": "java"},
    ]
    base = read_knowledge_base(
        file("kb.jsonl", "\n".join(map(json.dumps, rows))), columns=Columns(name="entity_name")
    )
    assert [entity.name for entity in base.entities] == ["data", "java"]


def test_esappmod_mentions_of_no_entity_are_counted(file):
    rows = {"0": {"entity_id": 1, "mentions": ["jdk"]}, "1": {"entity_id": 0, "mentions": ["zug", "rye"]}}
    base = read_knowledge_base(file("m.json", json.dumps({"data": rows})))
    assert [entity.entity_id for entity in base.entities] == ["1"]
    assert base.ignored == {"mention without an entity id": 2}


@pytest.mark.parametrize(("name", "mark"), [("kb.csv", ","), ("kb.tsv", "\t")])
def test_a_cell_is_as_long_as_it_is(file, name, mark):
    rows = (
        mark.join(("id", "name", "synonyms")),
        mark.join(("1", "gout", "|".join(f"alias {n}" for n in range(20_000)))),
    )
    (entity,) = read_knowledge_base(file(name, "\n".join(rows))).entities
    assert len(entity.aliases) == 20_000


def test_a_name_is_the_same_however_its_letters_are_composed(file):
    rows = [
        {"entity_id": "1", "name": "caf\u00e9"},
        {"entity_id": "1", "name": "Cafe\u0301", "aliases": ["coffee house"]},
    ]
    base = read_knowledge_base(file("kb.jsonl", "\n".join(map(json.dumps, rows))))
    assert not base.rejects
    assert "coffee house" in base.entities[0].aliases
