"""LitBank's layers and coreference in columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.data.readers import Reading, read_corpus
from rayner.errors import CorpusError


def _read(folder: Path, content: str) -> Reading:
    (folder / "a.conll").write_text(content, encoding="utf-8")
    return read_corpus(folder / "a.conll")


def _mentions(reading: Reading) -> list[tuple[str, str, str | None, str | None]]:
    (document,) = reading.documents
    return [(document.text[m.start : m.end], m.type, m.chain, m.entity_id) for m in document.mentions]


def test_litbank_layers_nest(tmp_path: Path) -> None:
    reading = _read(
        tmp_path,
        "the\tB-PER\tO\tO\tO\t\nking\tI-PER\tO\tO\tO\t\nof\tI-PER\tO\tO\tO\t\nSpain\tI-PER\tB-GPE\tO\tO\t\n\nran\tO\tI-PER\tO\tO\t\n",
    )
    assert [m[:2] for m in _mentions(reading)] == [
        ("the king of Spain", "PER"),
        ("Spain", "GPE"),
        ("ran", "PER"),
    ]
    assert reading.documents[0].sentences == ((0, 17), (18, 21))
    assert reading.repaired.total() == 1


def test_litbank_broken_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("the\tB-PER\tO\nking\tperson\tO\n")
    with pytest.raises(CorpusError, match=r"a\.tsv:2"):
        read_corpus(tmp_path / "a.tsv", "litbank")


def test_conll_2012_brackets(tmp_path: Path) -> None:
    words = [("Ann", "(1|(2)"), ("'s", "1)"), ("dog", "(1"), ("saw", "-"), ("her", "(2)|1)")]
    rows = [f"bn/x   0   {i}   {w}   NN   -   -   -   -   *   {b}" for i, (w, b) in enumerate(words)]
    content = "#begin document (bn/x); part 000\n" + "\n".join(rows) + "\n\n#end document\n"
    content += "#begin document (bn/x); part 001\n" + rows[3] + "\n\n#end document\n"
    reading = _read(tmp_path, content)
    first, second = reading.documents
    assert (first.document_id, second.document_id) == ("bn/x", "bn/x:1")
    assert first.group == second.group == "bn/x"
    assert [(first.text[m.start : m.end], m.type, m.chain) for m in first.mentions] == [
        ("Ann 's", "mention", "1"),
        ("Ann", "mention", "2"),
        ("dog saw her", "mention", "1"),
        ("her", "mention", "2"),
    ]


def test_gum_brackets(tmp_path: Path) -> None:
    rows = [
        "1\tAnn\t(person-4-Ann_Lee(person-5)",
        "2\tLee\tperson-4-Ann_Lee)",
        "3\tsaw\t_",
        "4\ther\t(person-4)",
    ]
    reading = _read(tmp_path, "# begin document GUM_x\n" + "\n".join(rows) + "\n# end document\n")
    assert reading.documents[0].document_id == "GUM_x"
    assert _mentions(reading) == [
        ("Ann Lee", "person", "4", "Ann_Lee"),
        ("Ann", "person", "5", None),
        ("her", "person", "4", None),
    ]


def test_a_part_may_have_any_number(tmp_path: Path) -> None:
    content = "#begin document (x); part {}\n1\tAnn\t(1)\n"
    reading = _read(tmp_path, "".join(map(content.format, ("000", "010", "7" * 5000))))
    assert [d.document_id for d in reading.documents] == ["x", "x:10", f"x:{'7' * 5000}"]
    assert {d.group for d in reading.documents} == {"x"}


def test_long_digits_are_read_in_linear_time(tmp_path: Path) -> None:
    content = f"# begin document x\n1\tAnn\t(1)\n2\tran\t{'1' * 5000}x\n3\tfar\t7\n"
    (tmp_path / "a.conll").write_text(content)
    assert len(read_corpus(tmp_path / "a.conll", "coreference").rejects) == 2


def test_brackets_that_do_not_pair_are_rejected(tmp_path: Path) -> None:
    rows = ["1\tAnn\t(person-4", "2\tLee\tplace-5)", "3\tsaw\tperson-x)", "4\ther\t(person-6)"]
    (tmp_path / "a.conll").write_text("# begin document x\n" + "\n".join(rows) + "\n")
    reading = read_corpus(tmp_path / "a.conll", "coreference")
    assert [m.chain for m in reading.documents[0].mentions] == ["6"]
    assert sorted(r.where.rpartition(":")[2] for r in reading.rejects) == ["2", "3", "4"]


def test_documents_begin_and_end_at_their_marks(tmp_path: Path) -> None:
    first = "# newdoc id = a\n# sent_id = 1\n1\tAda\t(person-1)\n\n"
    second = "# newdoc id = b\n1\tBob\t(person-1)\n# end document\n"
    unnamed, both = "1\tEve\t(person-1)\n", "# begin document c\n# newdoc id = c\n1\tAl\t(person-1)\n"
    reading = _read(tmp_path, first + second + unnamed + both)
    found = {document.document_id: document.text for document in reading.documents}
    assert found == {"a": "Ada", "b": "Bob", "a:7": "Eve", "c": "Al"}
    assert not reading.rejects


@pytest.mark.parametrize(
    ("marks", "id_", "rejects"),
    [
        ("# newdoc id = a\n\n# newdoc id = b\n", "b", 1),
        ("# begin document\n# newdoc id = c\n", "c", 0),
        ("# newdoc id = c\n# begin document c\n", "c", 0),
        ("# newdoc\n# begin document (c); part 001\n", "c:1", 0),
        ("# newdoc id = c\n# begin document\n", "c", 0),
        ("# newdoc id = c\n# begin document (d); part 000\n", "d", 0),
    ],
)
def test_a_document_may_have_both_marks(tmp_path: Path, marks: str, id_: str, rejects: int) -> None:
    reading = _read(tmp_path, f"{marks}1\tAda\t(person-1)\n")
    assert [document.document_id for document in reading.documents] == [id_]
    assert len(reading.rejects) == rejects
