"""What `annotate` takes beside the model does not grow with its input."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.annotate_memory import write_input
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.annotation.input_shards import BLOCKS, LEAST_BLOCK, cut_shards, find_sources
from rayner.runtime.annotation.reading import Row, read_blocks
from tests.runtime.annotation.annotate_model import Nothing


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_a_large_file_is_streamed(tmp_path: Path, form: str) -> None:
    """Its longest document has ten megabytes."""
    count = write_input(tmp_path, form, 60)
    sources, _ = find_sources([str(tmp_path)])
    (shard,) = cut_shards(sources)
    tracemalloc.start(1)
    try:
        assert sum(len(block) for block in read_blocks(shard, 2**19)) == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 2**20


@pytest.mark.parametrize(("count", "together"), [(BLOCKS, 0), (3 * BLOCKS, 3 * BLOCKS)])
def test_many_small_files_of_lines_are_put_together(tmp_path: Path, count: int, together: int) -> None:
    """Else each is a block, and a file of the output."""
    texts = {}
    for number in range(count):
        name = f"{number:03d}"
        texts[f"{name}:2"] = f"Text {number}."
        (tmp_path / f"{name}.jsonl").write_text(f"no JSON\n{json.dumps({'text': texts[f'{name}:2']})}\n")
    (tmp_path / "large.jsonl").write_text(json.dumps({"text": "word " * LEAST_BLOCK}))
    sources, _ = find_sources([str(tmp_path)])
    shards = cut_shards(sources)
    assert sorted(map(len, shards)) == ([1, together] if together else [1] * (count + 1))
    rows = [row for shard in shards for block in read_blocks(shard, LEAST_BLOCK) for row in block.all_rows()]
    read = {row.name: row.content for row in rows if isinstance(row, Row)}
    assert {name: json.loads(read[name])["text"] for name in texts} == texts


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_block_has_read_its_lines_and_not_what_is_buffered_behind_them(tmp_path: Path, end: bytes) -> None:
    """By these bytes annotate says how far it is."""
    line = json.dumps({"text": "A word. " * 100}).encode()
    (tmp_path / "in.jsonl").write_bytes(b"\n".join([line] * 40) + end)
    (shard,) = cut_shards(find_sources([str(tmp_path)])[0])
    blocks = list(read_blocks(shard, 9 * len(line)))
    assert [len(block) for block in blocks] == [8] * 5
    # With the line that ends it by not fitting.
    assert max(block.consumed for block in blocks) <= 9 * (len(line) + 1)
    assert sum(block.consumed for block in blocks) == shard[0].size


def test_a_line_over_the_limit_is_rejected_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayner.runtime.annotation.reading.LONGEST", 2**20)
    rows = [
        json.dumps({"document_id": f"d{i}", "text": "A word. " * n})
        for i, n in enumerate([1, 2**22, 2, 2**17])
    ]
    (tmp_path / "in").mkdir()
    with gzip.open(tmp_path / "in" / "a.jsonl.gz", "wt") as file:
        file.write("\n".join(rows))
    (tmp_path / "in" / "b.txt").write_text("A word. " * 2**18)
    tracemalloc.start(1)
    try:
        counts = annotate(Nothing(), [tmp_path / "in"], tmp_path / "out", workers=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    lost = [json.loads(line) for line in (tmp_path / "out" / "_rejects.jsonl").read_text().splitlines()]
    assert counts["documents"] == 2
    assert [(r["where"].rpartition("/")[2], "longer than" in r["what"]) for r in lost] == [
        ("a.jsonl.gz:2", True),
        ("a.jsonl.gz:4", True),
        ("b.txt", True),
    ]
    assert peak < 12 * 2**20


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("rows_per_group", [1, 7])
def test_a_row_over_the_limit_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_group: int, encoded: bool
) -> None:
    limit = 2**14
    monkeypatch.setattr("rayner.runtime.annotation.reading.LONGEST", limit)
    texts = ["x" * n for n in (1, limit + 1, 2, 9000, 9001, 2 * limit, 3)]
    column = pa.array(texts).dictionary_encode() if encoded else pa.array(texts)
    table = pa.table({"document_id": [f"d{i}" for i in range(len(texts))], "text": column})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=rows_per_group)
    counts = annotate(Nothing(), [tmp_path / "in.parquet"], tmp_path / "out", workers=0)
    lost = [json.loads(line) for line in (tmp_path / "out" / "_rejects.jsonl").read_text().splitlines()]
    assert counts["documents"] == 5
    assert [(r["where"].rpartition("/")[2], "longer than" in r["what"]) for r in lost] == [
        ("in.parquet:row 1", True),
        ("in.parquet:row 5", True),
    ]
    found = pq.read_table(tmp_path / "out", columns=["document_id", "source"]).to_pylist()
    sources = {row["document_id"]: row["source"].rpartition(" ")[2] for row in found}
    assert sources == {f"d{i}": str(i) for i in (0, 2, 3, 4, 6)}


@pytest.mark.faults
def test_on_ray_five_hundred_megabytes_more_take_no_more_memory(root: Path, tmp_path: Path) -> None:
    """In a process of its own, whose cluster is not that of the other tests.

    With 300 MB it takes 2.05 GB, most of it for Ray's processes, and with 800 MB 0.04 GB more. With 100 MB
    the readers may be over before the last actor is there, so that the peak is that of fewer processes.
    """
    peaks = {}
    out = str(tmp_path / "annotate_memory.json")
    for megabytes in (300, 800):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.annotate_memory", "--megabytes", str(megabytes), "--out", out],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
        (row,) = json.loads(done.stdout.splitlines()[-1])["rows"]
        peaks[megabytes] = row["peak_mb"]
    assert peaks[800] < peaks[300] + 300, peaks
