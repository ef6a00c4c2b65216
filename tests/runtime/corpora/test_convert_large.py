"""Large files are converted in parts, to what one process makes of the whole file."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayner.data.readers import files, find_units, read_corpus
from rayner.data.schema import Document
from rayner.errors import FileError
from rayner.runtime import repeated_ids
from rayner.runtime.corpora import kept_parts
from rayner.runtime.corpora.convert import convert
from rayner.runtime.corpora.part_folders import Output
from tests.runtime.corpora.converted import parts_of

FEW = settings(max_examples=20)
mentions = st.lists(st.just({"start": 0, "end": 1, "type": "PER"}), max_size=2)
rows = st.one_of(
    st.builds(
        lambda name, text, found: {
            "document_id": f"d{name}",
            "text": f"{text}x",
            "mentions": found,
            "mood": 1,
        },
        *(st.integers(0, 5), st.sampled_from("ab"), mentions),
    ),
    st.builds(lambda text: {"text": text}, st.text(max_size=9)),
)
lines = st.one_of(
    rows.map(lambda row: json.dumps(row, ensure_ascii=True).encode()),
    st.sampled_from([b"", b"  ", b"{", b'{"text": "\xff"}', b'{"text": "\xed\xa0\x80"}', b"\r", b"[]"]),
)


def converted(path: Path, out: Path, size: int = 2**20) -> dict[str, Any]:
    """All that a conversion says and writes, of files in parts of this size; rejects in no order."""
    with parts_of(size):
        try:
            counts = convert([path], out, workers=0)
        except Exception as error:
            return {"error": type(error)}
    kept = json.loads((out / "counts.json").read_text("utf-8"))
    rejects = sorted((out / "rejects.jsonl").read_text("utf-8").splitlines())
    told = {name: value for name, value in counts.items() if name != "seconds"}
    documents = read_corpus(sorted(out.glob("documents-*"))).documents
    return {**told, "reasons": kept["reasons"], "rejects": rejects, "read": documents}


@FEW
@given(st.lists(lines, min_size=1, max_size=12), st.booleans(), st.booleans(), st.integers(1, 80))
def test_json_lines_in_parts_are_the_file(found: list[bytes], marked: bool, ended: bool, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.jsonl")
        path.write_bytes(b"\xef\xbb\xbf" * marked + b"\n".join(found) + b"\n" * ended)
        assert converted(path, Path(folder, "parts"), size) == converted(path, Path(folder, "whole"))


@FEW
@given(st.lists(rows, min_size=8, max_size=20), st.integers(1, 9), st.integers(1, 900), st.booleans())
def test_parquet_in_parts_is_the_file(
    found: list[dict[str, Any]], group: int, size: int, damaged: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.parquet")
        columns = {name: [row.get(name) for row in found] for name in ("document_id", "text", "mood")}
        pq.write_table(pa.table(columns), path, row_group_size=group, use_dictionary=False)
        if damaged:
            metadata = pq.read_metadata(path)
            chunk = metadata.row_group(metadata.num_row_groups // 2).column(1)
            data = bytearray(path.read_bytes())
            begin = chunk.data_page_offset
            data[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
            path.write_bytes(data)
        whole = converted(path, Path(folder, "whole"))
        assert converted(path, Path(folder, "parts"), size) == whole
        assert damaged == any(
            "cannot be read" in reject for reject in whole.get("rejects", ["cannot be read"])
        )


def write_lines(path: Path, count: int) -> None:
    path.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(count)), "utf-8")


def test_a_large_file_is_cut_and_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the conversion is interrupted: what is done, the cuts too, is not done again."""
    path, out = tmp_path / "in.jsonl", tmp_path / "out"
    write_lines(path, 100)
    whole = converted(path, tmp_path / "whole")
    read: list[tuple[int, int]] = []
    original, span_of = kept_parts.read_unmerged, files.read_span
    spans: list[tuple[int, int]] = []

    def reader(unit: Any) -> Any:
        if len(read) == 3 and None not in read:
            raise KeyboardInterrupt
        read.append(unit.span)
        return original(unit)

    monkeypatch.setattr(kept_parts, "read_unmerged", reader)
    monkeypatch.setattr(files, "read_span", lambda path, span: spans.append(span) or span_of(path, span))
    with parts_of(200), pytest.raises(KeyboardInterrupt):
        convert([path], out, workers=0)
    size, cutting = path.stat().st_size, -(-path.stat().st_size // 200)
    assert len(spans) == cutting + 3
    monkeypatch.setattr(kept_parts, "read_unmerged", lambda unit: read.append(unit.span) or original(unit))
    assert converted(path, out, 200) == whole
    assert sorted(read) == sorted(set(read))
    assert (read[0][0], read[-1][1]) == (0, size)
    assert len(spans) == cutting + len(read)
    assert not (out / ".parts").exists()
    before = len(spans)
    assert converted(path, out, 200) == whole
    assert len(spans) == before


def test_a_packed_file_stays_whole(tmp_path: Path) -> None:
    write_lines(tmp_path / "in.jsonl", 100)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress((tmp_path / "in.jsonl").read_bytes()))
    assert converted(tmp_path / "in.jsonl.gz", tmp_path / "out", 40)["documents"] == 100
    assert len(list((tmp_path / "out").glob("documents-*"))) == 1


def test_parts_of_a_file_have_the_size_of_their_part(tmp_path: Path) -> None:
    """So that they are worked on one by one, however many there are."""
    write_lines(tmp_path / "in.jsonl", 100)
    with parts_of(200):
        parts = kept_parts.cut_parts(find_units(tmp_path), "test")
        split = kept_parts.split_large(parts, "test", Output(tmp_path / "out"), map)
    assert len(parts) == 1 < len(split)
    assert all(len(part.of.units) == 1 for part in split)
    assert len({part.key for part in split}) == len(split)


def test_a_file_that_changes_while_it_is_read_is_no_half_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.jsonl"
    write_lines(path, 100)
    original = kept_parts.read_unmerged

    def reader(unit: Any) -> Any:
        write_lines(path, 200)
        return original(unit)

    monkeypatch.setattr(kept_parts, "read_unmerged", reader)
    with parts_of(200), pytest.raises(FileError, match=r"in\.jsonl: changed while it was read; start again"):
        convert([path], tmp_path / "out", workers=0)


def test_small_and_large_files_keep_their_order(tmp_path: Path) -> None:
    for number, count in enumerate((2, 80, 1, 90, 3)):
        rows = [json.dumps({"document_id": f"{number}-{i}", "text": "x"}) for i in range(count)]
        (tmp_path / f"{number}.jsonl").write_text("\n".join(rows), "utf-8")
    given: list[Document] = read_corpus(tmp_path).documents
    found = converted(tmp_path, tmp_path.with_name(f"{tmp_path.name}-out"), 200)
    assert found["read"] == given


def test_ids_given_again_are_found_in_bounded_memory(tmp_path: Path) -> None:
    """Whether few slots make suspects of all ids, and however few of them are compared at once."""
    rows = [{"document_id": f"d{i * i % 31}", "text": f"text {i % 3}"} for i in range(90)]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    whole = converted(path, tmp_path / "whole")
    assert whole["rejected"] > 9 < whole["duplicates"]
    for number, (slots, size) in enumerate(((8, 1), (8, 2**27), (2**32, 100))):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(repeated_ids, "MOST_SLOTS", slots)
            patch.setattr(repeated_ids, "PART_BYTES", size)
            assert converted(path, tmp_path / str(number), 200) == whole
