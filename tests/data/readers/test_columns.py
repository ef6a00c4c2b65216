"""Column files: schemes, documents, and what is repaired or rejected."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rayner.data.readers import Reading, find_units, read_corpus, read_unit
from rayner.errors import CorpusError


def _read(folder: Path, content: str, name: str = "a.tsv") -> Reading:
    path = folder / name
    path.write_text(content, encoding="utf-8", newline="")
    return read_corpus(path, "columns")


def _mentions(reading: Reading) -> list[tuple[str, str]]:
    return [(d.text[m.start : m.end], m.type) for d in reading.documents for m in d.mentions]


def test_sentences_are_documents_named_by_line(tmp_path: Path) -> None:
    reading = _read(tmp_path, "New\tB-LOC\nYork\tI-LOC\n\t\nAnn\tB-PER\nsmiled\tO\n")
    assert [d.document_id for d in reading.documents] == ["a:1", "a:4"]
    assert reading.documents[1].text == "Ann smiled"
    assert reading.documents[1].words == ((0, 3), (4, 10))
    assert reading.documents[1].sentences == ((0, 10),)
    assert _mentions(reading) == [("New York", "LOC"), ("Ann", "PER")]
    assert reading.places == [f"{tmp_path}/a.tsv:1", f"{tmp_path}/a.tsv:4"]
    assert not reading.repaired


def test_file_without_blank_lines_is_one_document(tmp_path: Path) -> None:
    (document,) = _read(tmp_path, "Call O\nme O\nIshmael B-PER\n. O\n", "moby.conll").documents
    assert document.document_id == "moby"
    assert document.sentences is None


def test_document_marks(tmp_path: Path) -> None:
    content = (
        "-DOCSTART- -X- -X- O\n\nAnn NNP B-NP B-PER\n\nran VBD B-VP O\n\n"
        "-DOCSTART- (two (2)) O\n\nBob NNP B-NP B-PER\n"
        "# begin document three\nEve NNP B-NP B-PER\n#end document\n#doc four\nAl NNP B-NP B-PER\n"
        "# id five\tdomain=train\n#hash NNP B-NP O\n"
    )
    reading = _read(tmp_path, content)
    assert [d.document_id for d in reading.documents] == ["a:1", "two (2)", "three", "four", "five"]
    assert reading.documents[0].text == "Ann\nran"
    assert reading.documents[0].sentences == ((0, 3), (4, 7))
    assert reading.documents[4].text == "#hash"


def test_a_word_may_look_like_a_document_mark(tmp_path: Path) -> None:
    content = (
        "-DOCSTART-\tO\n\nThe\tO\n-DOCSTART-\tO\nline\tO\n\n-DOCSTART-\tB-MARK\nhelps\tO\n\n"
        "-DOCSTART-\tO\n\nBob\tB-PER\n"
    )
    reading = _read(tmp_path, content)
    assert [d.text for d in reading.documents] == ["The -DOCSTART- line\n-DOCSTART- helps", "Bob"]
    assert _mentions(reading) == [("-DOCSTART-", "MARK"), ("Bob", "PER")]


def test_marks_without_blank_lines_around_them(tmp_path: Path) -> None:
    for mark in ("-DOCSTART- -X- O O", "-DOCSTART- (b)\tO", "# begin document b"):
        rows = "Ann NNP B-NP B-PER\n{}\nBob NNP B-NP B-PER\n"
        reading = _read(tmp_path, (rows.replace(" ", "\t") if "\t" in mark else rows).format(mark))
        assert [d.text for d in reading.documents] == ["Ann", "Bob"]


def test_many_small_files_are_documents(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.tsv").write_text("Ann\tB-PER\n\nran\tO\n")
    reading = read_corpus(tmp_path)
    assert len(reading.documents) == 20
    assert reading.documents[7].document_id == "07"
    assert reading.documents[7].text == "Ann\nran"


def test_repeated_file_names_are_told_apart_by_folder(tmp_path: Path) -> None:
    for folder in ("art", "law"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.txt").write_text(f"{folder}\tB-X\n\nran\tO\n")
    assert [d.document_id for d in read_corpus(tmp_path).documents] == [
        "art/train:1",
        "art/train:3",
        "law/train:1",
        "law/train:3",
    ]


@pytest.mark.parametrize(
    ("tags", "expected", "repaired"),
    [
        ("B-A I-A O I-A I-A", ["a b", "d e"], 1),
        ("B-A I-B I-B B-B O", ["a", "b c", "d"], 1),
        ("I-A I-A O I-A B-A", ["a b", "d", "e"], 0),
        ("B-A E-A S-B I-A E-A", ["a b", "c", "d e"], 1),
        ("B-A I-A O B-A E-B", ["a b", "d", "e"], 3),
        ("B-A L-A U-B O B-A", ["a b", "c", "e"], 1),
        ("B-A I-A O B-A B-A", ["a b", "d", "e"], 0),
    ],
)
def test_schemes_and_repairs(tmp_path: Path, tags: str, expected: list[str], repaired: int) -> None:
    rows = [f"{word} {tag}" for word, tag in zip("abcde", tags.split(), strict=True)]
    reading = _read(tmp_path, "\n".join(rows))
    assert [text for text, _ in _mentions(reading)] == expected
    assert reading.repaired.total() == repaired


def test_tags_in_the_first_column_crlf_gzip_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.iob2.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfB-PER\tAnn\r\nO\tran\r\n\r\nO\ton\r\n"))
    reading = read_corpus(path)
    assert [d.text for d in reading.documents] == ["Ann ran", "on"]
    assert dict(reading.repaired) == {"byte-order mark removed": 1}


def test_marks_inside_words_stay(tmp_path: Path) -> None:
    reading = _read(tmp_path, "x\tO\n\ufeffUn\u2028\tB-X\na\u00a0b\tI-X\n")
    assert reading.documents[0].text == "x \ufeffUn\u2028 a\u00a0b"
    assert not reading.repaired


def test_broken_line_rejects_its_document_only(tmp_path: Path) -> None:
    reading = _read(tmp_path, "Ann\tB-PER\n\nran\nfar\tX\noff\tO\n\nBob\tB-PER\n")
    assert [d.text for d in reading.documents] == ["Ann", "Bob"]
    (reject,) = reading.rejects
    assert reject.where == f"{tmp_path}/a.tsv:3"
    assert reject.document_id == "a:3"
    assert "1 more" in reject.what


def test_tag_without_a_word_is_counted(tmp_path: Path) -> None:
    reading = _read(tmp_path, "Ann\tB-PER\n\tO\nran\tO\n")
    assert reading.documents[0].text == "Ann ran"
    assert reading.repaired.total() == 1


def test_file_that_is_no_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("Ann\tB-PER\nJos\u00e9\tB-PER\n".encode("latin1"))
    with pytest.raises(CorpusError, match=r"a\.tsv:2: byte 0xe9 is not UTF-8; .*iconv"):
        read_corpus(path, "columns")
    (reject,) = read_unit(find_units(path, "columns")[0]).rejects
    assert reject.where.endswith("a.tsv:2")
    path.write_bytes(b"Ann\tB-PER\n" + b"\0\1" * 9)
    with pytest.raises(CorpusError, match=r"a\.tsv:2: NUL characters"):
        read_corpus(path, "columns")
    path.write_bytes("Ann\tB-PER\n".encode("utf-16"))
    with pytest.raises(CorpusError, match="utf-16"):
        read_corpus(path, "columns")
    path.write_bytes(b"")
    with pytest.raises(CorpusError, match="an empty file"):
        read_corpus(path, "columns")


GERMEVAL = "#\turl [2005]\n1\tTU\tB-ORG\tO\n2\tDarmstadt\tI-ORG\tB-LOC\n\n#\turl [2006]\n1\tAnn\tB-PER\tO\n"
UNIVERSAL = "# sent_id = 1\n# text = TU Darmstadt\n1\tTU\tB-ORG\t-\tx\n2\tDarmstadt\tI-ORG\t-\tx\n"
CHUNKS = "1 TU NNP B-NP B-ORG\n2 Darmstadt NNP I-NP I-ORG\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (GERMEVAL, [("TU Darmstadt", "ORG"), ("Darmstadt", "LOC"), ("Ann", "PER")]),
        (UNIVERSAL, [("TU Darmstadt", "ORG")]),
        (CHUNKS, [("TU Darmstadt", "ORG")]),
        (CHUNKS.replace("2 ", "1 ").replace("1 TU", "0 TU"), [("TU Darmstadt", "ORG")]),
    ],
)
def test_words_that_are_numbered(tmp_path: Path, content: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "a.tsv").write_text(content)
    reading = read_corpus(tmp_path / "a.tsv")
    assert reading.documents[0].text == "TU Darmstadt"
    assert _mentions(reading) == expected
    assert not reading.rejects


def test_one_mark_at_the_top_makes_one_document(tmp_path: Path) -> None:
    (document,) = _read(tmp_path, "# newdoc id = x\nAnn\tB-PER\n\nran\tO\n").documents
    assert (document.document_id, document.text) == ("x", "Ann\nran")


def test_many_files_of_which_one_is_large_hold_a_document_a_sentence(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.tsv").write_text(
            "Ann\tB-PER\n\nran\tO\n" + "\n" * (200_000 if number == 3 else 0)
        )
    assert len(read_corpus(tmp_path).documents) == 40
