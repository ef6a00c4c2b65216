"""Whatever a file holds, a reader returns, or says what is wrong; it never breaks and never invents."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayner.data.readers import FORMATS, detect, read_corpus
from rayner.data.readers.base import Reject
from rayner.errors import CorpusError

PIECES = [
    *(
        "\n",
        "\r\n",
        "\t",
        " ",
        "\ufeff",
        "\0",
        "\u2028",
        "\x85",
        "\U0001f600",
        "|",
        "#",
        "-",
        ";",
        "(",
        ")",
        "{",
        "}",
    ),
    *(
        "a",
        "Ann",
        "O",
        "B-PER",
        "I-PER",
        "E-X",
        "S-",
        "1",
        "7",
        "99",
        "-1",
        "T1\tPER 0 3\tAnn\n",
        "T2\tX 0 1;2 3\ta a",
    ),
    *(
        "1|t|Ann",
        "1|a|ran",
        "1\t0\t3\tAnn\tPER\tD1\n",
        "\n1\tCID\ta\tb\n",
        "(1)",
        "(1",
        "1)",
        "(a-1",
        "a-1)",
        "_",
    ),
    *(
        "#begin document (a); part 0\n",
        "# begin document a\n",
        "#end document",
        "-DOCSTART- (a)\n",
        "# id x\n",
    ),
    *(
        "filename\tmark\tlabel\toff0\toff1\tspan\n",
        "a\tT1\tX\t0\t1\tA\n",
        "x\t0\t0\tAnn\t(1\n",
        "Ann\tB-PER\tI-X\n",
    ),
    *(
        '{"text": "Ann"}\n',
        '{"id": 1, "text": "a", "mentions": [{"start": 0, "end": 9, "type": "X"}]}\n',
        '{"y_str": ["x"], "mention_span": "Ann", "left_context_token": [], "right_context_token": ["ran"]}\n',
        '{"y_str": ["\\ud800"], "mention_span": "a", "left_context_token": [], "right_context_token": []}\n',
        '{"tokens": ["Ann", "ran"], "mentions": [{"start": 0, "end": 1, "labels": ["/x"]}]}\n',
        '{"tokens": ["Ann"], "mentions": [{"start": 0, "end": 9, "labels": []}]}\n',
        "0\t1\tAnn ran\t/x /x/y\tHEAD|Ann\n",
        "PAR1",
    ),
    *("N1\tReference T1 a:b\tx\n", "#1\tAnnotatorNotes T1\tD1\n", "N1\n", "#1\n", "T\n", "*\tx\n"),
]
CONTENT = st.lists(st.sampled_from(PIECES), max_size=25).map(lambda parts: "".join(parts).encode())
BYTES = st.one_of(CONTENT, st.binary(max_size=60))


@pytest.mark.parametrize("name", FORMATS)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(content=BYTES, notes=BYTES)
def test_readers_return_or_say_what_is_wrong(name: str, content: bytes, notes: bytes) -> None:
    suffix = {"brat": ".txt", "parquet": ".parquet", "jsonl": ".jsonl", "livingner": ".tsv"}.get(name, ".txt")
    with TemporaryDirectory() as folder:
        (Path(folder) / f"a{suffix}").write_bytes(content)
        if name in ("brat", "livingner"):
            (Path(folder) / ("a.ann" if name == "brat" else "a.txt")).write_bytes(notes)
        for format in (name, "auto"):
            try:
                reading = read_corpus(folder, format)
            except CorpusError:
                continue
            assert reading.documents
            for document in reading.documents:
                assert document.document_id
                assert all(0 <= m.start < m.end <= len(document.text) and m.type for m in document.mentions)
            assert all(
                isinstance(reject, Reject) and reject.where and reject.what for reject in reading.rejects
            )
        with suppress(CorpusError):
            assert detect(folder) in FORMATS


@pytest.mark.parametrize(
    ("name", "content", "documents", "rejects"),
    [
        ("a.jsonl", '{"text": "a"}\n' + "[" * 100_000 + "\n", 1, 1),
        ("a.txt", f"1|t|Ann\n1\t0\t{'9' * 5000}\tAnn\tPER\n", 1, 1),
        ("a.tsv", f"{'9' * 5000}\tAnn\tB-PER\n2\tran\tO\n", 1, 0),
    ],
)
def test_endless_nesting_and_endless_numbers(
    tmp_path: Path, name: str, content: str, documents: int, rejects: int
) -> None:
    (tmp_path / name).write_text(content)
    found = read_corpus(tmp_path / name)
    assert (len(found.documents), len(found.rejects)) == (documents, rejects)


def test_a_file_that_is_endless_nesting_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"text": ' + "[" * 60_000)
    with pytest.raises(CorpusError, match="--format"):
        read_corpus(tmp_path / "a.json")
