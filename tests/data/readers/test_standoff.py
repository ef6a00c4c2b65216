"""Formats that point into a text by offsets: PubTator, brat, LivingNER."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from rayner.data.readers import Reading, read_corpus
from rayner.data.readers.offsets import explain
from rayner.errors import CorpusError

ABSTRACT = "7|t|Gout and HFE\n7|a|Hemochromatosis is rare.\n"


def _pubtator(folder: Path, content: str) -> Reading:
    (folder / "a.txt").write_text(content, encoding="utf-8", newline="")
    return read_corpus(folder / "a.txt", "pubtator")


def _brat(folder: Path, text: str, notes: str) -> Reading:
    (folder / "a.txt").write_bytes(text.encode())
    (folder / "a.ann").write_bytes(notes.encode())
    return read_corpus(folder, "brat")


def test_pubtator_document(tmp_path: Path) -> None:
    rows = "7\t0\t4\tGout\tDisease\tD1|D2\n7\t13\t28\tHemochromatosis\tDisease\t-1\n7\tCID\tD1\tD2\n"
    reading = _pubtator(tmp_path, ABSTRACT + rows)
    (document,) = reading.documents
    assert document.document_id == "7"
    assert document.text == "Gout and HFE\nHemochromatosis is rare."
    assert [(m.start, m.end, m.type, m.entity_id) for m in document.mentions] == [
        (0, 4, "Disease", "D1|D2"),
        (13, 28, "Disease", None),
    ]
    assert dict(reading.ignored) == {"relation": 1}
    assert not reading.repaired
    assert not reading.rejects


@pytest.mark.parametrize("gap", [0, 2])
def test_pubtator_title_and_abstract_are_joined_as_the_offsets_demand(tmp_path: Path, gap: int) -> None:
    start = len("Gout and HFE") + gap
    row = f"7\t{start}\t{start + 15}\tHemochromatosis\tDisease\tD1\n"
    reading = _pubtator(tmp_path, ABSTRACT + row)
    (document,) = reading.documents
    assert document.text[document.mentions[0].start : document.mentions[0].end] == "Hemochromatosis"
    assert reading.repaired.total() == 1


def test_identical_documents_are_kept_once_and_unlike_ones_rejected(tmp_path: Path) -> None:
    row = "7\t0\t4\tGout\tDisease\tD1\n"
    reading = _pubtator(tmp_path, f"{ABSTRACT}{row}\n{ABSTRACT}{row}\n{ABSTRACT}")
    assert len(reading.documents) == 1
    assert dict(reading.repaired) == {"identical document given twice: kept once": 1}
    (reject,) = reading.rejects
    assert reject.where.endswith("a.txt:9")
    assert f"{tmp_path}/a.txt:1" in reject.what
    assert reject.document_id == "7"


def test_documents_of_two_files_are_compared(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(ABSTRACT)
    (tmp_path / "b.txt").write_text(ABSTRACT.replace("rare", "common"))
    reading = read_corpus([tmp_path / "a.txt", tmp_path / "b.txt"])
    (reject,) = reading.rejects
    assert reject.where.endswith("b.txt:1")
    assert "a.txt:1" in reject.what


def test_offsets_in_bytes_are_recognized(tmp_path: Path) -> None:
    text = "7|t|\u00c9t\u00e9 of gout\n7|a|x\n"
    reading = _pubtator(
        tmp_path, text + "7\t9\t13\tgout\tDisease\n7\t3\tx\tof\tDisease\n8\t0\t1\tx\tDisease\n"
    )
    assert not reading.documents[0].mentions
    orphan, wrong, broken = reading.rejects
    assert wrong.where.endswith("a.txt:3")
    assert "count UTF-8 bytes" in wrong.hint
    assert broken.where.endswith("a.txt:4")
    assert orphan.where.endswith("a.txt:5")


@pytest.mark.parametrize(
    ("text", "start", "end", "hint"),
    [
        ("\U0001f600 gout", 3, 7, "UTF-16"),
        ("a\r\nb gout", 4, 8, "CRLF as one"),
        ("is gout", 4, 8, "it is at 3 7: correct the offsets (do they count from 1?)"),
        ("is gout.", 3, 6, "include the end"),
        ("gout, far off", 6, 10, "it is at 0 4"),
        ("a text", 0, 4, "correct the offsets or"),
        ("a text", -3, 99, "correct the offsets or"),
    ],
)
def test_wrong_offsets_are_explained(text: str, start: int, end: int, hint: str) -> None:
    surface = "gout"
    what, why = explain(text, start, end, surface)
    assert hint in why
    assert repr(surface) in what


def test_brat_document(tmp_path: Path) -> None:
    notes = (
        "T2\tDISEASE 8 12\tgout\nT1\tPER 0 3\tAnn\nN1\tReference T1 Wikipedia:12\tAnn\n"
        "#1\tAnnotatorNotes T2\t8560\n#2\tAnnotatorNotes T1\tnot sure about this\nR1\tHas Arg1:T1 Arg2:T2\n"
    )
    reading = _brat(tmp_path, "Ann had gout.", notes)
    (document,) = reading.documents
    assert [(m.start, m.end, m.type, m.entity_id) for m in document.mentions] == [
        (0, 3, "PER", "Wikipedia:12"),
        (8, 12, "DISEASE", "8560"),
    ]
    assert dict(reading.ignored) == {"comment": 1, "relation": 1}


def test_brat_ids_are_told_from_remarks_and_have_two_notations(tmp_path: Path) -> None:
    notes = (
        "T1\tPER 0 3\tAnn\nT2\tDISEASE 8 12\tgout\n#1\tAnnotatorNotes T1\tunsure\n"
        "N1\tOntoBiotope Annotation:T2 Referent:OBT:000110\tgout\n"
    )
    reading = _brat(tmp_path, "Ann had gout.", notes)
    assert [m.entity_id for m in reading.documents[0].mentions] == [None, "OBT:000110"]
    assert dict(reading.ignored) == {"comment": 1}


def test_brat_notes_that_say_so_are_ids_without_a_digit(tmp_path: Path) -> None:
    notes = "T1\tPER 0 3\tAnn\nT2\tDISEASE 8 12\tgout\n#1\tAnnotatorNotes T1\tentity_id: Ann_Lee\n"
    reading = _brat(tmp_path, "Ann had gout.", notes + "#2\tAnnotatorNotes T2\tentity_id: not sure\n")
    assert [m.entity_id for m in reading.documents[0].mentions] == ["Ann_Lee", None]
    assert dict(reading.ignored) == {"comment": 1}


@pytest.mark.parametrize(("first", "counted"), [(1, 1), (0, 0)])
def test_brat_counts_a_byte_order_mark(tmp_path: Path, first: int, counted: int) -> None:
    places = (f"{first} {first + 3}", f"{first + 8} {first + 12}")
    notes = f"T1\tPER {places[0]}\tAnn\nT2\tDISEASE {places[1]}\tgout\nN1\tReference T1 W:1\tAnn\n"
    # In parts, over white space.
    notes += f"T3\tVERB {first} {first + 3};{first + 4} {first + 7}\tAnn had\n"
    reading = _brat(tmp_path, "\ufeffAnn had gout.", notes)
    assert [(m.start, m.end, m.entity_id) for m in reading.documents[0].mentions] == [
        (0, 7, None),
        (0, 3, "W:1"),
        (8, 12, None),
    ]
    assert not reading.rejects
    assert reading.repaired["offsets that count a byte-order mark"] == counted


def test_brat_parts_of_a_mention(tmp_path: Path) -> None:
    text = "left and right arm\nof Ann"
    notes = "T1\tPART 0 4;15 18\tleft arm\nT2\tPART 15 18;19 21\tarm of\nT3\tPART 9 21\tright arm of\n"
    reading = _brat(tmp_path, text, notes)
    assert [(m.start, m.end) for m in reading.documents[0].mentions] == [(9, 21), (15, 21)]
    (reject,) = reading.rejects
    assert reject.where == f"{tmp_path}/a.ann:1"
    assert "discontinuous" in reject.what
    assert reading.repaired.total() == 1


def test_brat_rejects_name_the_line_and_keep_the_rest(tmp_path: Path) -> None:
    notes = (
        "T1\tPER 0 3\tBob\nT2\tPER 40 43\tAnn\nT3 PER 0 3 Ann\nhello\nT4\tPER 0 3\tAnn\nT5\tPER 3 0\tAnn\n"
    )
    reading = _brat(tmp_path, "Ann ran.", notes)
    assert len(reading.documents[0].mentions) == 1
    assert sorted(int(reject.where.rpartition(":")[2]) for reject in reading.rejects) == [1, 2, 3, 4, 6]
    assert all(reject.document_id == "a" for reject in reading.rejects)


def test_brat_files_without_their_other_half(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann")
    (tmp_path / "a.ann").write_text("")
    (tmp_path / "b.txt").write_text("Bob")
    (tmp_path / "c.ann").write_text("T1\tPER 0 3\tCid\n")
    reading = read_corpus(tmp_path)
    assert [d.document_id for d in reading.documents] == ["a"]
    assert [Path(r.where).name for r in reading.rejects] == ["b.txt", "c.ann"]
    assert len(read_corpus(tmp_path / "a.ann").documents) == 1
    with pytest.raises(CorpusError, match=r"no \.ann file beside it"):
        read_corpus(tmp_path / "b.txt", "brat")


def test_livingner(tmp_path: Path) -> None:
    header = "filename\tmark\tlabel\toff0\toff1\tspan\tisH\tcode\n"
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "c1.txt").write_text("Un hombre con VIH.", encoding="utf-8")
    (tmp_path / "texts" / "c2.txt").write_text("Nada.", encoding="utf-8")
    table = tmp_path / "entities.tsv"
    rows = (
        "c1\tT1\tSPECIES\t14\t17\tVIH\tFalse\t12721\n"
        "c1\tT2\tHUMAN\t3\t9\thombre\tTrue\tNOCODE\n"
        "c1\tT3\tHUMAN\t0\t6\thombre\tTrue\t9606\n"
        "c9\tT1\tHUMAN\t0\t6\thombre\tTrue\t9606\n"
        "c1\tbroken\n"
    )
    table.write_text(header + rows, encoding="utf-8")
    for paths in (tmp_path, table):
        reading = read_corpus(paths)
        assert [d.document_id for d in reading.documents] == ["c1", "c2"]
        assert [(m.start, m.end, m.type, m.entity_id) for m in reading.documents[0].mentions] == [
            (3, 9, "HUMAN", None),
            (14, 17, "SPECIES", "12721"),
        ]
        assert [r.where for r in reading.rejects] == [f"{table}:5", f"{table}:4", f"{table}:6"]
    table.write_text("file\tstart\n")
    with pytest.raises(CorpusError, match=r"entities\.tsv:1: another header"):
        read_corpus(table, "livingner")


def test_brat_files_may_be_packed(tmp_path: Path) -> None:
    notes = "T1\tPER 0 3\tAnn\n"
    for name in ("a.txt.gz", "b.txt", "c.txt.gz"):
        _write(tmp_path / name, "Ann ran.")
    for name in ("a.ann.gz", "b.ann.gz", "c.ann"):
        _write(tmp_path / name, notes)
    reading = read_corpus(tmp_path)
    assert [(d.document_id, d.text, len(d.mentions)) for d in reading.documents] == [
        (name, "Ann ran.", 1) for name in "abc"
    ]
    assert len(read_corpus(tmp_path / "a.txt.gz").documents) == 1
    _write(tmp_path / "a.txt", "Ann sat.")
    (reject,) = read_corpus(tmp_path).rejects
    assert "a.txt.gz" in f"{reject.where} {reject.what}"
    assert "keep one" in reject.hint


def _write(path: Path, text: str) -> None:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_brat_suffixes_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "a.TXT").write_text("Ann ran.")
    (tmp_path / "a.ann").write_text("T1\tPER 0 3\tAnn\n")
    (tmp_path / "b.txt").write_text("Bob ran.")
    (tmp_path / "b.ANN").write_text("T1\tPER 0 3\tBob\n")
    reading = read_corpus(tmp_path)
    assert [(d.document_id, d.text, len(d.mentions)) for d in reading.documents] == [
        ("a", "Ann ran.", 1),
        ("b", "Bob ran.", 1),
    ]
    assert not reading.rejects


def test_mentions_that_all_count_something_else_take_no_square_of_the_text(tmp_path: Path) -> None:
    lines, line = 50_000, "Ann wrote."
    (tmp_path / "a.txt").write_text(f"{line}\r\n" * lines, newline="")
    places = range(len(line) + 1, lines * (len(line) + 1), 20 * (len(line) + 1))
    (tmp_path / "a.ann").write_text(
        "".join(f"T{i}\tPER {start} {start + 3}\tAnn\n" for i, start in enumerate(places))
    )
    begun = time.process_time()
    rejects = read_corpus(tmp_path).rejects
    assert time.process_time() - begun < 3
    assert len(rejects) == len(places)
    assert all("CRLF as one" in reject.hint for reject in rejects)


def test_brat_remarks_with_a_number_are_no_ids_and_normalizations_come_first(tmp_path: Path) -> None:
    notes = (
        "T1\tPER 0 3\tAnn\nT2\tDISEASE 8 12\tgout\n#1\tAnnotatorNotes T1\tsee page 2\n"
        "#2\tAnnotatorNotes T2\tD2\nN1\tReference T2 MESH:1\tgout\n"
    )
    assert [m.entity_id for m in _brat(tmp_path, "Ann had gout.", notes).documents[0].mentions] == [
        None,
        "MESH:1",
    ]


def test_brat_normalization_that_says_that_there_is_no_entity(tmp_path: Path) -> None:
    notes = "T1\tPER 0 3\tAnn\nN1\tReference T1 -\tAnn\n"
    assert _brat(tmp_path, "Ann had gout.", notes).documents[0].mentions[0].entity_id is None


def test_brat_parts_whose_text_is_another_are_rejected(tmp_path: Path) -> None:
    reading = _brat(tmp_path, "Ann had gout.", "T1\tVERB 0 3;4 7\tBob has\n")
    assert not reading.documents[0].mentions
    assert len(reading.rejects) == 1


def test_one_mention_that_lies_before_its_offsets_moves_no_others(tmp_path: Path) -> None:
    notes = "T1\tPER 1 4\tAnn\nT2\tPER 4 7\thad\nT3\tDISEASE 8 12\tgout\n"
    reading = _brat(tmp_path, "\ufeffAnn had gout.", notes)
    assert [(m.start, m.end) for m in reading.documents[0].mentions] == [(4, 7), (8, 12)]
    assert len(reading.rejects) == 1


def test_pubtator_rows_with_the_names_of_the_parts_of_a_composite(tmp_path: Path) -> None:
    row = "7\t0\t12\tGout and HFE\tDisease \tD1|D2\tGout|HFE\n"
    (mention,) = _pubtator(tmp_path, ABSTRACT + row).documents[0].mentions
    assert (mention.type, mention.entity_id) == ("Disease", "D1|D2")


@pytest.mark.parametrize("ids", ["HFE\tD007", "6331\tD008133", "D008133\t6331", "6331\t5071"])
def test_pubtator_relations_may_be_of_numbers(tmp_path: Path, ids: str) -> None:
    reading = _pubtator(tmp_path, ABSTRACT + f"7\tPositive_Correlation\t{ids}\tNovel\n")
    assert not reading.rejects
    assert dict(reading.ignored) == {"relation": 1}


@pytest.mark.parametrize("start", ["a5", "", "1.5"])
def test_pubtator_offsets_that_are_none_make_no_relation(tmp_path: Path, start: str) -> None:
    reading = _pubtator(tmp_path, ABSTRACT + f"7\t{start}\t12\tGout\tDisease\tD1\n")
    assert [reject.where[-2:] for reject in reading.rejects] == [":3"]


@pytest.mark.parametrize("offsets", ["0.0\t4.0", "-1\t-1", "1,200\t1,204", "\t"])
def test_pubtator_offsets_that_are_both_none_are_no_relation(tmp_path: Path, offsets: str) -> None:
    reading = _pubtator(tmp_path, ABSTRACT + f"7\t{offsets}\tGout\tDisease\tD1\n")
    (reject,) = reading.rejects
    assert "write start and end as whole numbers" in reject.hint
    assert not reading.ignored


def test_pubtator_rows_without_tabs_are_told_so(tmp_path: Path) -> None:
    (reject,) = _pubtator(tmp_path, ABSTRACT + "7 0 4 Gout Disease D1\n").rejects
    assert (reject.what, reject.hint) == (
        "'7 0 4 Gout Disease D1' has no tab after its ID",
        "write tabs between its fields",
    )


def test_livingner_texts_of_one_name_belong_to_the_table_beside_them(tmp_path: Path) -> None:
    header = "filename\tmark\tlabel\toff0\toff1\tspan\n"
    for name, who in (("train", "Ada"), ("dev", "Bob")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.tsv").write_text(f"{header}1\tT1\tHUMAN\t0\t3\t{who}\n")
        (tmp_path / name / "1.txt").write_text(f"{who} ran.")
    reading = read_corpus(tmp_path)
    assert {d.text: len(d.mentions) for d in reading.documents} == {"Bob ran.": 1}
    (reject,) = reading.rejects
    assert "document '1' differs from the one at" in reject.what


def test_livingner_tables_may_share_their_texts(tmp_path: Path) -> None:
    header = "filename\tmark\tlabel\toff0\toff1\tspan\n"
    for name, case in (("train", "one"), ("dev", "two")):
        (tmp_path / f"{name}.tsv").write_text(f"{header}{case}\tT1\tHUMAN\t0\t3\tAda\n")
        (tmp_path / f"{case}.txt").write_text("Ada ran.")
    (tmp_path / "three.txt").write_text("Nobody ran.")
    reading = read_corpus([tmp_path / "train.tsv", tmp_path / "dev.tsv"])
    assert {d.document_id: len(d.mentions) for d in reading.documents} == {"one": 1, "two": 1, "three": 0}
    assert not reading.rejects


def test_livingner_texts_may_be_packed(tmp_path: Path) -> None:
    _write(tmp_path / "c1.txt.gz", "Un hombre.")
    (tmp_path / "t.tsv").write_text("filename\tmark\tlabel\toff0\toff1\tspan\nc1\tT1\tHUMAN\t3\t9\thombre\n")
    for paths in (tmp_path, tmp_path / "t.tsv"):
        reading = read_corpus(paths)
        assert [(d.document_id, len(d.mentions)) for d in reading.documents] == [("c1", 1)]
        assert not reading.rejects


def test_brat_ids_that_look_like_another_notation(tmp_path: Path) -> None:
    notes = "T1\tPER 0 3\tAnn\nN1\tReference T1 Referent:5\tAnn\n"
    assert _brat(tmp_path, "Ann had gout.", notes).documents[0].mentions[0].entity_id == "Referent:5"


def test_the_first_of_brat_notes_with_an_id_counts(tmp_path: Path) -> None:
    notes = "T1\tPER 0 3\tAnn\n#1\tAnnotatorNotes T1\tQ1\n#2\tAnnotatorNotes T1\t2024-check\n"
    reading = _brat(tmp_path, "Ann had gout.", notes)
    assert reading.documents[0].mentions[0].entity_id == "Q1"
    assert reading.ignored == {"comment": 1}
