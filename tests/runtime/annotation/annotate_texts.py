"""Texts to annotate, in the forms that `annotate` reads, and what it makes of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.runtime.annotation.annotate import annotate
from tests.runtime.annotation.annotate_model import Capitals

TEXT = "Ada wrote to Charles in London about the Engine. "
TEXTS = [TEXT * (1 + i % 5) + f"Number {i} 🙂 Émile" for i in range(50)]


def rows(out: Path) -> list[dict[str, Any]]:
    """The annotated documents, by id."""
    found = [row for path in sorted(out.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: row["document_id"])


def rejects(out: Path) -> list[dict[str, Any]]:
    """The table of rejects."""
    return [json.loads(line) for line in (out / "_rejects.jsonl").read_text().splitlines()]


def blocks_done(out: Path) -> int:
    """How many blocks are done."""
    return len(list((out / ".work/blocks").glob("*.json")))


def untimed(counts: dict[str, Any]) -> dict[str, Any]:
    """What does not differ from run to run."""
    timed = ("startup_seconds", "seconds", "words_per_second", "workers")
    return {name: value for name, value in counts.items() if name not in timed}


def here(inputs: Path | Sequence[Path], out: Path, **options: Any) -> dict[str, Any]:
    """Annotate in this process."""
    given = [inputs] if isinstance(inputs, Path) else inputs
    return annotate(options.pop("model", Capitals()), given, out, **{"workers": 0, **options})


def write_jsonl(path: Path, texts: Sequence[str], name: str = "d") -> Path:
    """A row a text."""
    lines = [json.dumps({"document_id": f"{name}{i}", "text": text}) + "\n" for i, text in enumerate(texts)]
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(lines)
    return path


def write_parquet(path: Path, texts: Sequence[str], **options: Any) -> Path:
    """A row a text."""
    table = pa.table({"document_id": [f"d{i}" for i in range(len(texts))], "text": list(texts)})
    pq.write_table(table, path, **options)
    return path


def write_texts(folder: Path, texts: Sequence[str], packed: bool = False) -> Path:
    """A file a text."""
    folder.mkdir()
    for i, text in enumerate(texts):
        data = text.encode()
        path = folder / (f"d{i}.txt" + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(data) if packed else data)
    return folder
