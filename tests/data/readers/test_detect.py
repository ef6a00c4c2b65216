"""`--format auto`: which files, which format, and what an error names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import detect, find_units, read_corpus
from rayner.errors import CorpusError

CONTENTS = {
    "columns": ("train.txt", "Ann\tB-PER\nran\tO\n"),
    "pubtator": ("x.txt", "1|t|Gout\n1|a|Rare.\n"),
    "livingner": ("x.tsv", "filename\tmark\tlabel\toff0\toff1\tspan\n"),
    "litbank": ("x.tsv", "Ann\tB-PER\tO\tO\n"),
    "coreference": ("x.conll", "#begin document (x); part 0\nx\t0\t0\tAnn\t_\t(1)\n"),
    "jsonl": ("x.json", '{"text": "a"}\n'),
    "parquet": ("x.parquet", "PAR1"),
    "ufet": ("x.json", '{"y_str": ["person"], "mention_span": "Ann"}\n'),
    "figer": ("x.jsonl", '{"tokens": ["Ann"], "mentions": []}\n'),
    "ontonotes_fet": ("x.txt", "0\t1\tAnn ran\t/person\tHEAD|Ann\n"),
    "brat": ("x.ann", "T1\tPER 0 3\tAnn\n"),
    "text": ("x.txt", "Ann ran.\nAnd on.\n"),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_detects(tmp_path: Path, name: str) -> None:
    file, content = CONTENTS[name]
    (tmp_path / file).write_text(content)
    (tmp_path / "LICENSE").write_text("free")
    (tmp_path / "_rejects.jsonl").write_text("{}")
    assert detect(tmp_path) == name
    assert detect([str(tmp_path / file)]) == name


@pytest.mark.parametrize(
    "content", ['[{"text": "a"}]', '[{"text": "a"},\n{"text": "b"}]', '[\n{"text": "a"}\n]\n']
)
def test_an_array_is_told_how_to_become_lines(tmp_path: Path, content: str) -> None:
    for name in ("x.json", "x.jsonl"):
        (tmp_path / name).write_text(content)
        with pytest.raises(CorpusError, match=r"no known format.*; write one JSON object a line, as `jq -c"):
            detect(tmp_path / name)
    with pytest.raises(CorpusError, match=r"x.json:1: .*; write one JSON object a line, as `jq -c"):
        read_corpus(tmp_path / "x.json", format="jsonl")


def test_conll_2003_is_not_litbank(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\n\nrejects VBZ B-VP O\n")
    assert detect(tmp_path) == "columns"


@pytest.mark.parametrize(
    "text",
    [
        "B-cell lymphoma was found in the biopsy.\n",
        "E-mail the clinic\nI-95 was closed.\n",
        "The patient has blood group O",
        "He has blood group O\nShe has the rare blood group O\n",
        "B-cell lymphoma\n",
    ],
)
def test_a_text_with_what_looks_like_a_tag_is_a_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    assert detect(tmp_path) == "text"
    assert [d.text for d in read_corpus(tmp_path).documents] == [text]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.txt", "-DOCSTART- -X- O\n\nUlm NNP B-LOC\n"), ("x.conll", "Ulm B-LOC\n"), ("x.txt", "Ulm\tB-LOC\n")],
)
def test_one_row_is_known_by_what_is_around_it(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert detect(tmp_path) == "columns"


@pytest.mark.parametrize(
    ("rows", "mentions"),
    [
        # Chunks before entities; what a model found after what is right.
        ([("Ann", "B-NP", "B-PER"), ("ran", "B-VP", "O")], [("Ann", "PER")]),
        ([("Ann", "B-PER", "B-PER"), ("ran", "O", "O")], [("Ann", "PER")]),
    ],
)
def test_two_columns_of_tags_may_be_no_layers(
    tmp_path: Path, rows: list[tuple[str, ...]], mentions: list[tuple[str, str]]
) -> None:
    (tmp_path / "x.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    assert detect(tmp_path) == "columns"
    (document,) = read_corpus(tmp_path).documents
    assert [(document.text[m.start : m.end], m.type) for m in document.mentions] == mentions


def test_utf_16_is_told_how_to_become_utf_8(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_text("Ada\tB-PER\nran\tO\n", encoding="utf-16")
    with pytest.raises(CorpusError, match=r"no known format.*; convert it: iconv -f utf-16 -t utf-8$"):
        detect(tmp_path)
    (tmp_path / "x.conll").write_bytes("номер;текст\n".encode("cp1251"))
    # Only some commands have --format, and some files are in no format that it names.
    to_do = r"; give --format to `rayner corpus convert`: .*; or write JSON lines with a `text` each$"
    with pytest.raises(CorpusError, match=rf"no known format.*{to_do}"):
        detect(tmp_path)


def test_bioc_that_is_read_as_json_lines_says_so(tmp_path: Path) -> None:
    # As `annotate` does, which detects no format.
    (tmp_path / "x.json").write_text('{"documents": [{"passages": []}]}\n')
    with pytest.raises(CorpusError, match=r"no field `text`; it is BioC, of which `rayner corpus convert`"):
        read_corpus(tmp_path / "x.json", format="jsonl")


@pytest.mark.parametrize("tags", [["B-PER", "O"], [1, 0]])
def test_words_and_tags_of_json_lines_say_how_they_are_read(tmp_path: Path, tags: list[Any]) -> None:
    (tmp_path / "x.jsonl").write_text(json.dumps({"tokens": ["Ada", "ran"], "ner_tags": tags}) + "\n")
    with pytest.raises(
        CorpusError, match=r"no field `text`; words and tags are read from Parquet: `datasets"
    ):
        read_corpus(tmp_path / "x.jsonl")


@pytest.mark.parametrize("text", ["<collection", "-DOCSTART- -X- O O", '{"text": "a"}', "1|t|a\n1|a|b"])
def test_a_text_beside_annotations_may_look_like_anything(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.ann").write_text(f"T1\tX 0 1\t{text[0]}\n")
    (document,) = read_corpus(tmp_path).documents
    assert (document.text, len(document.mentions)) == (text, 1)


def test_errors_name_what_was_seen(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no files"):
        detect(tmp_path)
    with pytest.raises(CorpusError, match="no such file"):
        detect(tmp_path / "nowhere")
    (tmp_path / "x.tsv").touch()
    with pytest.raises(CorpusError, match=r"x\.tsv: an empty file; remove it, or restore its content$"):
        detect(tmp_path)
    (tmp_path / "x.tsv").unlink()
    (tmp_path / "x.xml").write_text("<corpus>\n")
    with pytest.raises(
        CorpusError, match=r"no known format; looked at .*x\.xml \('<corpus>'\); give --format"
    ):
        detect(tmp_path)
    (tmp_path / "x.xml").unlink()
    (tmp_path / "a.txt").write_text("Ann\tB-PER\n")
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(CorpusError, match=r"several formats: columns .*a\.txt\), jsonl .*b\.jsonl\)"):
        detect(tmp_path)
    with pytest.raises(CorpusError, match="no format 'xml'; one of auto, huggingface, parquet"):
        find_units(tmp_path, "xml")
    (tmp_path / "a.txt").unlink()
    with pytest.raises(CorpusError, match="no brat files"):
        find_units(tmp_path, "brat")


@pytest.mark.parametrize("name", ["eng.train", "esp.testa", "ned.testb", "wnut.dev"])
def test_files_under_the_names_of_conll_are_found_in_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("Ann\tB-PER\nran\tO\n")
    assert [Path(unit.paths[0]).name for unit in find_units(tmp_path)] == [name]
    (tmp_path / "others.tsv").write_text("Ann\tB-PER\nran\tO\n")
    assert [unit.name for unit in find_units(tmp_path)] == ["others"], "held out, as it was"


@pytest.mark.parametrize("tags", [("person-actor", "O", "O"), ("B", "I", "O")])
def test_words_with_tags_that_nobody_knows_are_no_text(tmp_path: Path, tags: tuple[str, ...]) -> None:
    rows = "".join(f"word\t{tag}\n" for tag in tags)
    (tmp_path / "a.txt").write_text(rows + "\n" + rows)
    with pytest.raises(CorpusError, match="no known format"):
        detect(tmp_path)
    (tmp_path / "a.txt").write_text("Rh O\nis a group of blood\n")
    assert detect(tmp_path) == "text"


def test_paths_may_be_of_several_formats(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann\tB-PER\n")
    (tmp_path / "b.jsonl").write_text('{"text": "Ann"}\n')
    reading = read_corpus([tmp_path / "b.jsonl", tmp_path / "a.txt"])
    assert [document.text for document in reading.documents] == ["Ann", "Ann"]
    assert [len(document.mentions) for document in reading.documents] == [0, 1]
    assert {unit.format for unit in find_units([tmp_path / "a.txt", tmp_path / "b.jsonl"])} == {
        "columns",
        "jsonl",
    }


def test_files_of_another_kind_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann\tB-PER\n")
    (tmp_path / "figure.png").write_bytes(b"\x89PNG")
    assert dict(read_corpus(tmp_path).ignored) == {"file of another kind": 1}


def test_files_of_another_kind_are_named_where_they_are_left_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, content in (("labelled/a.jsonl", '{"text": "Ann"}\n'), ("raw/b.rtf", "{\\rtf1 Ann ran.}\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
    assert len(find_units([tmp_path / "labelled", tmp_path / "raw"])) == 1
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / 'raw'}: nothing of this folder is read; left aside, as no jsonl: "
        f"{tmp_path / 'raw/b.rtf'}; name it in a command of its own"
    ]
    caplog.clear()
    find_units([tmp_path / "labelled", tmp_path / "raw"])
    assert not caplog.text, "said once"
    assert len(find_units(tmp_path / "labelled")) == 1
    assert not caplog.text


def test_units_are_one_a_file_with_names_of_their_own(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.txt").write_text("Ann\tB-PER\n")
    assert [unit.name for unit in find_units(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize("paths", [None, [{"tokens": ["a"]}], {"train": []}, "", [""]])
def test_what_is_no_path_is_refused(paths: Any) -> None:
    with pytest.raises(CorpusError, match=r"^paths: .* is no path; give files or folders; .*read_dataset$"):
        read_corpus(paths)


def test_a_file_may_be_named_by_its_uri(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("Ann\tB-PER\n")
    assert len(read_corpus((tmp_path / "a b.txt").as_uri()).documents) == 1
    with pytest.raises(CorpusError, match=r"^format: no format 'conll'; one of auto, "):
        read_corpus(tmp_path, "conll")


def test_names_of_documentation_are_read_where_they_hold_data(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("source.jsonl", "README.jsonl", "good.jsonl", "_u.jsonl", ".hidden.jsonl"):
        (tmp_path / name).write_text(json.dumps({"text": name}) + "\n")
    for name in ("README.md", "source.txt", "license.html", "_SUCCESS", "rejects.jsonl"):
        (tmp_path / name).write_text("about" if name != "_SUCCESS" else "")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert {document.text for document in read_corpus(tmp_path).documents} == {
        "source.jsonl",
        "README.jsonl",
        "good.jsonl",
    }
    find_units(tmp_path)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        f"left out: {tmp_path}/gone.jsonl is a link to nothing",
        f"left aside for its name: {tmp_path}/_u.jsonl; name a file itself to have it read",
    ]


@pytest.mark.parametrize(
    "about",
    [
        ("source.json", '{\n "url": "x"\n}'),
        ("source.json", '{"text": "x"}\n'),
        ("CHANGELOG.tsv", "a\tb\n"),
        ("LICENSE.xml", "<a/>"),
    ],
)
@pytest.mark.parametrize("format", ["text", "columns", "brat", "pubtator"])
def test_documentation_in_a_form_of_data_does_not_keep_a_corpus_from_being_read(
    tmp_path: Path, format: str, about: tuple[str, str]
) -> None:
    name, content = CONTENTS[format]
    (tmp_path / name).write_text(content)
    if format == "brat":
        (tmp_path / "x.txt").write_text("Ann ran.")
    (tmp_path / about[0]).write_text(about[1])
    reading = read_corpus(tmp_path)
    assert (detect(tmp_path), len(reading.documents), len(reading.rejects)) == (format, 1, 0)
    assert reading.ignored["file of another kind"] <= 1


def test_a_corpus_in_a_file_called_source_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("source.txt", "target.txt"):
        (tmp_path / name).write_text(CONTENTS["columns"][1])
    (tmp_path / "README.txt").write_text("About Ada.")
    assert len(find_units(tmp_path)) == 1
    assert f"left aside for its name: {tmp_path}/source.txt; name" in caplog.text


def test_a_text_of_such_a_name_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "source.txt").write_text("About Ada.")
    with pytest.raises(CorpusError, match=r"no files but source\.txt, .*; name the file itself"):
        find_units(tmp_path)
    (tmp_path / "ada.txt").write_text("Ada ran.")
    assert len(find_units(tmp_path)) == 1
    assert "left aside for its name" in caplog.text
    assert len(find_units(tmp_path / "source.txt")) == 1


def test_letters_with_which_bzip2_begins_are_letters(tmp_path: Path) -> None:
    (tmp_path / "x.conll").write_bytes("BZh\tB-X\nM\u00fcller\tO\n".encode("latin1"))
    with pytest.raises(CorpusError, match="iconv -f latin1"):
        read_corpus(tmp_path)


@pytest.mark.parametrize(
    ("name", "begin", "hint"),
    [
        ("x.jsonl.zst", b"\x28\xb5\x2f\xfd\0\x58\x11", "packed with zstd: unpack it, or pack it as .gz"),
        ("x.jsonl", gzip.compress(b"Ada", mtime=0), "packed with gzip: let its name end in .gz"),
    ],
    ids=["zstd", "gzip"],
)
def test_a_packed_file_is_told_to_be_one(tmp_path: Path, name: str, begin: bytes, hint: str) -> None:
    (tmp_path / name).write_bytes(begin)
    with pytest.raises(CorpusError, match=hint):
        read_corpus(tmp_path / name)


def test_gz_may_be_in_capitals(tmp_path: Path) -> None:
    (tmp_path / "X.JSONL.GZ").write_bytes(gzip.compress(b'{"text": "Ada ran."}\n'))
    assert [document.text for document in read_corpus(tmp_path).documents] == ["Ada ran."]
