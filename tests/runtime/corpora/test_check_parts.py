"""`corpus check` of parts, by many processes or one, finds what a look at all documents in memory finds."""

from __future__ import annotations

import errno
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rayner.data.readers import find_units, read_unit
from rayner.errors import RaynerError
from rayner.runtime import faults
from rayner.runtime.corpora import kept_parts, part_findings
from rayner.runtime.corpora.check import check
from tests.corpus_in_memory import check_in_memory
from tests.runtime.corpora.converted import parts_of


def _write(folder: Path, draw: random.Random, documents: int) -> list[Path]:
    """Files of JSON lines with ids, texts, groups and types that repeat, and with lines that are none."""
    folder.mkdir()
    lines = []
    for _ in range(documents):
        text = draw.choice(["Ann Lee ran", "Ann  Lee ran", " ", "Bob sat", f"number {draw.random()} is here"])
        spans = [(0, 3), (0, 2), (1, 5), (0, 3), (2, 4), (0, 90)]
        some = draw.sample(spans, draw.randrange(4))
        lines.append(
            json.dumps(
                {
                    "document_id": f"d{draw.randrange(documents)}",
                    "text": text,
                    "group": draw.choice([None, "g", f"h{draw.randrange(5)}"]),
                    "mentions": [{"start": a, "end": b, "type": draw.choice("XYZ")} for a, b in some],
                }
            )
            if draw.random() < 0.95
            else "{"
        )
        if draw.random() < 0.1:
            lines.append(draw.choice(lines))
    paths = []
    while lines:
        taken = draw.randrange(1, 40)
        paths.append(folder / f"{len(paths):03d}.jsonl")
        paths[-1].write_text("\n".join(lines[:taken]) + "\n", "utf-8")
        lines = lines[taken:]
    return paths


def _by_definition(splits: Mapping[str, Sequence[Path]]) -> dict[str, Any]:
    """What `check` returns, from documents that are all in memory."""
    documents, places, rejects = {}, {}, []
    for name, paths in splits.items():
        readings = [read_unit(unit) for unit in find_units(paths)]
        documents[name] = [document for reading in readings for document in reading.documents]
        places[name] = [place for reading in readings for place in reading.places]
        of_split = [reject for reading in readings for reject in reading.rejects]
        of_split.sort(key=lambda reject: "differs from the one" in reject.what)
        rejects += [
            {"kind": "unreadable", "severity": "error", **reject.to_row(), "split": name}
            for reject in of_split
        ]
    found = check_in_memory(documents, places=places)
    types = Counter(m.type for of_split in documents.values() for d in of_split for m in d.mentions)
    return {
        "documents": sum(map(len, documents.values())),
        "types": dict(types),
        "findings": [*rejects, *map(asdict, found.findings)],
    }


@pytest.mark.parametrize("seed", range(3))
def test_parts_find_what_all_documents_in_memory_show(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    splits = {name: _write(tmp_path / name, draw, 60) for name in ("train", "dev")}
    wanted = _by_definition(splits)
    kinds = Counter(finding["kind"] for finding in wanted["findings"])
    assert {"leakage", "duplicate document", "unreadable", "crossing mentions"} <= kinds.keys()
    for size in (2**20, 2000, 300):
        with parts_of(size):
            found = check(splits, workers=0)
        assert {name: found[name] for name in wanted} == wanted
        assert found["kinds"] == kinds
        assert found["rejected"] == kinds["unreadable"]
        assert found["errors"] + found["warnings"] + found["notes"] == len(wanted["findings"])


def test_two_workers_find_what_one_process_finds(
    tmp_path: Path, ray_cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(0)
    splits = {name: _write(tmp_path / name, draw, 20) for name in ("train", "dev")}
    with parts_of(2000):
        alone = check(splits, workers=0)
        monkeypatch.chdir(tmp_path)
        beside = {name: [path.relative_to(tmp_path) for path in paths] for name, paths in splits.items()}
        relative = check(beside, workers=2)
    assert json.dumps(relative) == json.dumps(alone).replace(f"{tmp_path}/", "")


def test_of_each_kind_the_first_are_listed_and_all_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {name: _write(tmp_path / name, random.Random(1), 60) for name in ("train", "dev")}
    every = check(splits, workers=0)
    monkeypatch.setattr(part_findings, "MOST_LISTED", 3)
    with parts_of(300):
        found = check(splits, workers=0)
    seen = Counter[tuple[str, str]]()
    first = []
    for finding in every["findings"]:
        key = finding["kind"], finding["severity"]
        seen[key] += 1
        first += [finding] if seen[key] <= 3 else []
    assert found["findings"] == first
    assert found["unlisted"] == len(every["findings"]) - len(first) > 0
    for name in ("kinds", "errors", "warnings", "notes", "rejected", "documents", "mentions"):
        assert found[name] == every[name]


def test_a_file_that_the_system_does_not_give_ends_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = _write(tmp_path / "in", random.Random(0), 20)
    monkeypatch.setattr(faults, "PAUSE", 0)

    def failing(unit: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(kept_parts, "read_unmerged", failing)
    with pytest.raises(RaynerError, match=r"cannot be read \(Input/output error\); correct that"):
        check(paths, workers=0)
