"""Files as other tools and corpora have them, where a glance takes them for something else."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayner.data.readers import detect, json_rows, read_corpus
from rayner.errors import CorpusError


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def mentions(path: Path) -> list[tuple[str, str]]:
    return [(d.text[m.start : m.end], m.type) for d in read_corpus(path).documents for m in d.mentions]


@pytest.mark.parametrize(
    "text",
    [
        "These results agree with those of Smith et al. (12)\n",
        "Treatment of hypertension in children (2012)\nSee Table (1)\n",
        "Ich fahre mit der S-Bahn\nDas ist eine neue U-Bahn\n",
        "Blood type O\nBlood type B-positive\n",
    ],
)
def test_prose_is_text(tmp_path: Path, text: str) -> None:
    written(tmp_path / "a.txt", text)
    written(tmp_path / "b.txt", "The trial enrolled many patients in two sites.\n")
    assert detect(tmp_path / "a.txt") == detect(tmp_path) == "text"


def test_rows_between_spaces_are_columns_still(tmp_path: Path) -> None:
    two = written(tmp_path / "two.txt", "Ada B-PER\nwrote O\n")
    four = written(tmp_path / "four.txt", "Ada NNP B-NP B-PER\nwrote VBD B-VP O\n" * 2)
    named = written(tmp_path / "named.conll", "Ada NNP B-NP B-PER\n")
    assert detect(two) == detect(four) == detect(named) == "columns"
    marked = written(tmp_path / "marked.txt", "#begin document (a); part 000\na 0 0 Ada (1)\n")
    assert detect(marked) == "coreference"


@pytest.mark.parametrize("separator", ["\t", " "])
def test_a_comment_that_ends_as_a_tag_does_is_no_word(tmp_path: Path, separator: str) -> None:
    rows = [("Please", "O"), ("send", "O"), ("Ada", "B-PER"), ("#", "O")]
    lines = "\n".join(separator.join(row) for row in rows)
    comments = "# sent_id = 1\n# text = Please send me an E-mail\n"
    path = written(tmp_path / "a.conll", f"{comments}{lines}\n\n# text = has blood group O\n{lines}\n")
    reading = read_corpus(path)
    assert [d.text for d in reading.documents] == ["Please send Ada #"] * 2
    assert mentions(path) == [("Ada", "PER")] * 2
    assert reading.ignored["comment"] == 3
    assert not reading.repaired


def test_the_language_before_each_word_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "train", "en:R.H.\tB-ORG\nen:Saunders\tI-ORG\nen:(\tO\nen::\tO\n\nen:St.\tO\n")
    reading = read_corpus(path, "columns")
    assert [d.text.split() for d in reading.documents] == [["R.H.", "Saunders", "(", ":"], ["St."]]
    assert reading.repaired == {"language before a word (en:): left out": 5}
    mixed = written(tmp_path / "mixed", "en:a\tB-ORG\nen:b\tO\nde:c\tO\nen:d\tO\n")
    assert [d.text for d in read_corpus(mixed, "columns").documents] == ["en:a en:b de:c en:d"]


def test_words_that_are_written_as_one_are_not_read_twice(tmp_path: Path) -> None:
    sentence = "1-2\tdo\t_\n1\tde\tO\n2\to\tO\n2.1\tvai\t_\n3\tPorto\tB-LOC\n"
    path = written(tmp_path / "a.conllu", f"# sent_id = 1\n{sentence}\n{sentence}")
    reading = read_corpus(path, "columns")
    assert [d.text for d in reading.documents] == ["de o Porto"] * 2
    assert reading.ignored["row of several words, or of none"] == 4
    assert not reading.rejects


@pytest.mark.parametrize("tags", [[3, 0, 1], ["ORG", "O", "PER"]])
def test_tags_of_another_kind_do_not_take_the_place_of_those_that_are_named(
    tmp_path: Path, tags: list[Any]
) -> None:
    columns = {"tokens": [["O", "rejects", "Ada"]], "chunk_tags": [["B-NP", "B-VP", "B-NP"]]}
    pq.write_table(pa.table({**columns, "ner_tags": [tags]}), tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match="numbers need names"):
        read_corpus(tmp_path / "a.parquet")
    pq.write_table(pa.table({"tokens": [["O"]], "mine": [["B-PER"]]}), tmp_path / "b.parquet")
    assert mentions(tmp_path / "b.parquet") == [("O", "PER")]


def test_a_stretch_over_a_line_end_in_label_studio(tmp_path: Path) -> None:
    text = "12 Main Street\nOslo, Norway \\n"
    values = [(0, 19, "12 Main Street\\nOslo"), (21, 30, "Norway \\n")]
    found = [{"start": s, "end": e, "text": surface, "labels": ["LOC"]} for s, e, surface in values]
    result = [{"type": "labels", "value": value} for value in found]
    task = {"id": 1, "data": {"text": text}, "annotations": [{"result": result}]}
    path = written(tmp_path / "a.json", json.dumps([task]))
    assert mentions(path) == [("12 Main Street\nOslo", "LOC"), ("Norway \\n", "LOC")]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "array.json"])
def test_single_documents_of_bioc(tmp_path: Path, name: str) -> None:
    place = {"locations": [{"offset": 0, "length": 3}], "text": "Ann", "infons": {"type": "PER"}}
    passage = {"offset": 0, "infons": {}, "text": "Ann ran", "annotations": [place]}
    documents = [{"id": id_, "infons": {}, "passages": [passage]} for id_ in "ab"]
    lines = "\n".join(map(json.dumps, documents[: None if name == "a.jsonl" else 1]))
    path = written(tmp_path / name, json.dumps(documents) if name == "array.json" else lines)
    assert detect(path) == detect(tmp_path) == "bioc"
    assert {*mentions(path)} == {("Ann", "PER")}
    assert len(read_corpus(path).documents) == (1 if name == "a.json" else 2)


def test_parts_of_a_mention_that_are_not_in_order_are_discontinuous(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "heart disease severe")
    written(tmp_path / "a.ann", "T1\tD 14 20;0 5\tsevere heart\nT2\tD 0 5;6 13\theart disease\n")
    reading = read_corpus(tmp_path)
    assert [reject.what for reject in reading.rejects] == ["a discontinuous mention at 14 20;0 5"]
    assert reading.repaired == {"parts of a mention joined over white space": 1}


def test_a_second_abstract_is_no_other_document(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.pubtator", "1|t|Title\n1|a|First\n1|a|Second\n1\t0\t5\tTitle\tD\tX\n\n2|t|Gout\n"
    )
    reading = read_corpus(path)
    assert [d.document_id for d in reading.documents] == ["2"]
    assert [reject.what for reject in reading.rejects] == ["a second line 1|a| of one document"]


def test_archives_are_to_be_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.jsonl", '{"text": "Ada"}')
    for name, mode in (("a.tar", "w:"), ("a.tar.gz", "w:gz"), ("a.tgz", "w:gz")):
        with tarfile.open(tmp_path / name, mode) as archive:
            archive.addfile(tarfile.TarInfo("a.jsonl"), io.BytesIO())
    for name in ("a.zip", "a.tar", "a.tar.gz", "a.tgz"):
        with pytest.raises(CorpusError, match="it is an archive of files: unpack it, and name the folder"):
            detect(tmp_path / name)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1\0\1\2"))
    with pytest.raises(CorpusError, match="it is a packed Parquet file: unpack it"):
        detect(tmp_path / "a.parquet.gz")


@pytest.mark.parametrize("columns", [("entities",), ("tokenized_text", "ner")])
def test_words_are_not_looked_for_where_there_are_none(tmp_path: Path, columns: tuple[str, ...]) -> None:
    pq.write_table(pa.table({name: [["a"]] for name in columns}), tmp_path / "a.parquet")
    with pytest.raises(CorpusError, match=r"no column `document_id` among .*; name the column so"):
        read_corpus(tmp_path / "a.parquet", "parquet")


def test_a_first_row_that_is_longer_than_what_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "LONG_BYTES", 100_000)
    row = {"text": "Ada " + "x" * 200_000, "label": [[0, 3, "PER"]]}
    path = written(tmp_path / "a.jsonl", f"{json.dumps(row)}\n" * 2)
    assert detect(path) == "doccano"
    assert mentions(path) == [("Ada", "PER")] * 2


def test_texts_beside_another_format_are_texts(tmp_path: Path) -> None:
    letter = written(tmp_path / "letter.txt", "Ada wrote a letter.\n")
    rows = written(tmp_path / "rows.jsonl", json.dumps({"text": "Bob ran"}))
    reading = read_corpus([letter, rows])
    assert sorted(d.text for d in reading.documents) == ["Ada wrote a letter.\n", "Bob ran"]
    assert not reading.rejects
    columns = written(tmp_path / "of columns.conll", "Ada\tB-PER\n")
    assert len(read_corpus([letter, columns]).documents) == 2


def test_few_rows_beside_others_of_their_name_are_no_text(tmp_path: Path) -> None:
    many = written(tmp_path / "many.txt", "Ada NNP B-NP B-PER\n" * 4)
    few = written(tmp_path / "few.txt", "Bob NNP B-NP B-PER\nran VBD B-VP O\n")
    texts = [document.text for document in read_corpus([many, few]).documents]
    assert texts == ["Ada Ada Ada Ada", "Bob ran"]


def test_what_nobody_can_read_is_left_aside_beside_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    written(tmp_path / "raw/a.rtf", "{\\rtf1 Ada}")
    written(tmp_path / "raw/b.txt", "Ada ran.")
    rows = written(tmp_path / "rows.jsonl", json.dumps({"text": "Bob ran"}))
    assert [document.text for document in read_corpus([tmp_path / "raw", rows]).documents] == ["Bob ran"]


def test_columns_of_tags_that_are_not_read_are_counted(tmp_path: Path) -> None:
    """VLSP 2016: chunks, and two layers of entities, the inner of which comes last."""
    rows = ["Minh\tNp\tB-NP\tB-PER\tO", "Hà_Nội\tNp\tB-NP\tB-ORG\tB-LOC"]
    reading = read_corpus(written(tmp_path / "a.tsv", "\n".join(rows)))
    assert reading.ignored == {"column 4, of tags beside the last": 1}
    rows = ["1\tMinh\tNp\tB-PER\tO", "2\tHà_Nội\tNp\tB-ORG\tB-LOC"]
    reading = read_corpus(written(tmp_path / "numbered.tsv", "\n".join(rows)))
    assert reading.ignored == {"column 4, of tags beside the last": 1}
    conll = read_corpus(written(tmp_path / "b.txt", "Ada NNP I-NC I-PER\nran VBD I-VC O\n" * 2))
    assert not conll.ignored


def test_chunks_are_no_mentions_of_numbered_words(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "1\tEU\tB-NP\tB-ORG\n2\tran\tB-VP\tO\n")
    assert mentions(path) == [("EU", "ORG")]
    layers = "1\tthe\tB-NP\tB-PER\tO\n2\tBree\tI-NP\tI-PER\tB-LOC\n"
    assert mentions(written(tmp_path / "c.tsv", layers)) == [("the Bree", "PER"), ("Bree", "LOC")]
    assert mentions(written(tmp_path / "b.tsv", "1\tEU\tB-NP\n2\tran\tB-VP\n")) == [
        ("EU", "NP"),
        ("ran", "VP"),
    ]


def test_documents_begin_at_marks_between_layers(tmp_path: Path) -> None:
    mark, first, second = "-DOCSTART-\tO\tO\n\n", "the\tB-PER\tO\nBree\tI-PER\tB-LOC\n\n", "Bob\tB-PER\tO\n\n"
    path = written(tmp_path / "a.tsv", mark + first + mark + second)
    assert detect(path) == "litbank"
    reading = read_corpus(path)
    assert [(d.document_id, d.text) for d in reading.documents] == [("a:1", "the Bree"), ("a:6", "Bob")]
    assert mentions(path) == [("the Bree", "PER"), ("Bree", "LOC"), ("Bob", "PER")]


@pytest.mark.parametrize("name", ["train.txt", "train.text"])
def test_tags_that_no_format_knows_are_no_text(tmp_path: Path, name: str) -> None:
    rows = "EU\tNNP\tORG\nrejects\tVBZ\tO\nGerman\tJJ\tMISC\ncall\tNN\tO\n"
    with pytest.raises(CorpusError, match="no known format"):
        detect(written(tmp_path / name, rows))


@pytest.mark.parametrize("name", ["a.tsv.gz", "a.xml.gz"])
def test_a_file_that_cannot_be_unpacked_is_told_as_that(tmp_path: Path, name: str) -> None:
    written(tmp_path / name, "Ada\tB-PER\n")
    with pytest.raises(CorpusError, match="a broken gzip file"):
        detect(tmp_path / name)


def test_marks_of_documents(tmp_path: Path) -> None:
    rows = "Ada O\nran B-X\n\n"
    marks = ("# document_id = a", "# doc_id: b", "#doc c d", "# id 7f-1\tdomain=en", "# id 8  domain=en")
    text = "".join(f"{mark}\n# of cats\n{rows}" for mark in marks)
    reading = read_corpus(written(tmp_path / "a.conll", text))
    assert [d.document_id for d in reading.documents] == ["a", "b", "c d", "7f-1", "8  domain=en"]
    assert reading.ignored == {"comment": 5}


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("prodigy", {"_task_hash": 2, "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": "accept"}),
        ("doccano", {"label": [[0, 3, "PER"]]}),
    ],
)
def test_a_tool_keeps_the_fields_of_what_it_was_given(
    tmp_path: Path, name: str, beside: dict[str, Any]
) -> None:
    row = {"id": 7, "text": "Ada ran", "document_id": "a", "mentions": [], "group": "g"} | beside
    path = written(tmp_path / "a.jsonl", json.dumps(row))
    assert detect(path) == name
    (document,) = read_corpus(path).documents
    assert (document.document_id, mentions(path)) == ("7", [("Ada", "PER")])
    del row["id"]
    sentences = [row | {"document_id": "b"}, row, row | {"document_id": "b", "text": "Ada did"}]
    written(path, "\n".join(map(json.dumps, sentences)))
    assert [document.document_id for document in read_corpus(path).documents] == ["a:1", "a", "a:3"]


def test_the_first_row_of_a_tool_may_have_no_label(tmp_path: Path) -> None:
    ours = {"text": "Ada ran", "document_id": "a", "mentions": []}
    rows = [ours | {"id": 1, "label": []}, ours | {"id": 2, "label": [[0, 3, "PER"]]}]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert (detect(path), mentions(path)) == ("doccano", [("Ada", "PER")])
