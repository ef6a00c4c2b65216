from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rayner.data import scans
from rayner.data.readers import read_corpus
from rayner.data.schema import Document, Mention
from rayner.data.writers import write_parquet
from rayner.errors import CorpusError, RaynerError
from rayner.runtime import faults
from rayner.runtime.corpora import kept_parts
from rayner.runtime.corpora.check import check
from rayner.runtime.corpora.convert import convert, label
from rayner.tasks.registry import parse_recipe
from tests.runtime.corpora.converted import content
from tests.waiting import wait_for

SENTENCES = ["U.N. official Ekeus heads for Baghdad .", "Smith met Ekeus in Paris ."]
TAGS = ["B-ORG O B-PER O O B-LOC O", "B-PER O B-PER O B-LOC O"]


def iob(number: int) -> str:
    rows = [
        "\n".join(f"{w} {t}" for w, t in zip(s.split(), t.split(), strict=True))
        for s, t in zip(SENTENCES, TAGS, strict=True)
    ]
    return "\n\n".join([*rows, f"file{number} O"]) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Fifty files, one of them not UTF-8."""
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(50):
        (folder / f"f{i:02d}.conll").write_text(iob(i), "utf-8")
    (folder / "f17.conll").write_bytes(b"word\xff O\n")
    return folder


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART_UNITS", 6)


def timeless(counts: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in counts.items() if k != "seconds"}


def test_a_broken_file_is_rejected_and_the_rest_go_on(files: Path, tmp_path: Path) -> None:
    counts = convert([files], tmp_path / "out", workers=0)
    documents = read_corpus(tmp_path / "out").documents
    assert counts["format"] == "columns"
    assert counts["documents"] == len(documents) == len({d.document_id for d in documents})
    assert counts["types"] == dict(Counter(m.type for d in documents for m in d.mentions).most_common())
    assert counts["types"] == {"PER": 3 * 49, "LOC": 2 * 49, "ORG": 49}
    assert counts["mentions"] == 6 * 49
    assert counts["rejected"] == 1
    (reject,) = map(json.loads, (tmp_path / "out" / "rejects.jsonl").read_text().splitlines())
    assert "f17.conll:1" in reject["where"]
    assert "UTF-8" in reject["what"]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        *(f"documents-{i:05d}.parquet" for i in range(9)),
        *(".lock", "counts.json", "rejects.jsonl"),
    }


def test_the_same_corpus_whatever_the_workers(files: Path, tmp_path: Path, ray_cluster: None) -> None:
    alone = convert([files], tmp_path / "alone", workers=0)
    shared = convert([files], tmp_path / "shared", workers=2)
    assert timeless(alone) == timeless(shared)
    assert content(tmp_path / "alone") == content(tmp_path / "shared")


def counting(monkeypatch: pytest.MonkeyPatch, stop_after: int = 10**9) -> list[str]:
    read: list[str] = []
    original = kept_parts.read_unmerged

    def reader(unit: Any) -> Any:
        if len(read) == stop_after:
            raise KeyboardInterrupt
        read.append(unit.name)
        return original(unit)

    monkeypatch.setattr(kept_parts, "read_unmerged", reader)
    return read


def test_an_interrupted_conversion_goes_on(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert([files], tmp_path / "undisturbed", workers=0)
    with monkeypatch.context() as patch:
        counting(patch, stop_after=20)
        with pytest.raises(KeyboardInterrupt):
            convert([files], tmp_path / "out", workers=0)
    read = counting(monkeypatch)
    convert([files], tmp_path / "out", workers=0)
    assert len(read) == 50 - 18
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_a_file_that_changed_meanwhile_is_read_again(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        counting(patch, stop_after=20)
        with pytest.raises(KeyboardInterrupt):
            convert([files], tmp_path / "out", workers=0)
    (files / "f01.conll").write_text(iob(1000), "utf-8")
    read = counting(monkeypatch)
    convert([files], tmp_path / "out", workers=0)
    assert len(read) == 50 - 12
    assert any("file1000" in d.text for d in read_corpus(tmp_path / "out").documents)


def test_a_conversion_of_which_nothing_comes_leaves_the_one_before(files: Path, tmp_path: Path) -> None:
    convert([files], tmp_path / "out", workers=0)
    before = {path.name for path in (tmp_path / "out").iterdir()}
    (tmp_path / "broken.jsonl").write_text("no JSON\n")
    with pytest.raises(CorpusError):
        convert([tmp_path / "broken.jsonl"], tmp_path / "out", workers=0)
    assert {path.name for path in (tmp_path / "out").iterdir()} >= before


def test_a_finished_conversion_is_not_done_again(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = convert([files], tmp_path / "out", workers=0)
    read = counting(monkeypatch)
    assert convert([files], tmp_path / "out", workers=0) == first
    assert not read
    for path in (tmp_path / "out").glob("documents-*"):
        path.unlink()
    again = convert([files], tmp_path / "out", workers=0)
    assert (again["documents"], len(read)) == (first["documents"], 50), "who removed the documents wants them"
    convert([files], tmp_path / "out", workers=0, fresh=True)
    assert len(read) == 100
    for path in sorted(files.iterdir())[30:]:
        path.unlink()
    fewer = convert([files], tmp_path / "out", workers=0)
    assert fewer["documents"] == len(read_corpus(tmp_path / "out").documents) < first["documents"]
    assert len(list((tmp_path / "out").glob("documents-*"))) == 5


def test_a_document_given_twice_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "PART_UNITS", 1)
    row = {"document_id": "a", "text": "Ekeus", "mentions": [{"start": 0, "end": 5, "type": "PER"}]}
    other = {**row, "text": "Smith"}
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "2.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "document_id": "b"}) + "\n")
    (folder / "3.jsonl").write_text(json.dumps(other) + "\n")
    counts = convert([folder], tmp_path / "out", workers=0)
    assert timeless(counts) == {
        "format": "jsonl",
        "documents": 2,
        "mentions": 2,
        "types": {"PER": 2},
        "repaired": 1,
        "rejected": 1,
        "duplicates": 1,
    }
    assert [d.document_id for d in read_corpus(tmp_path / "out").documents] == ["a", "b"]
    (reject,) = map(json.loads, (tmp_path / "out" / "rejects.jsonl").read_text().splitlines())
    assert reject["document_id"] == "a"
    assert "3.jsonl" in reject["where"]


def test_a_reader_that_fails_costs_one_file(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = kept_parts.read_unmerged

    def reader(unit: Any) -> Any:
        if "f03" in unit.paths[0]:
            raise ZeroDivisionError("unforeseen")
        return original(unit)

    monkeypatch.setattr(kept_parts, "read_unmerged", reader)
    assert convert([files], tmp_path / "out", workers=0)["documents"] == 48
    assert "ZeroDivisionError: unforeseen" in (tmp_path / "out" / "rejects.jsonl").read_text()


@pytest.mark.parametrize("form", ["conll", "parquet"])
@pytest.mark.parametrize("failures", [2, 99])
def test_a_disk_that_fails_is_no_reason_to_reject(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, failures: int
) -> None:
    monkeypatch.setattr(faults, "PAUSE", 0.0)
    if form == "parquet":
        convert([files], tmp_path / "tables", workers=0)
        files = tmp_path / "tables"
    wanted = convert([files], tmp_path / "undisturbed", workers=0)
    left = [OSError(errno.EIO, "Input/output error")] * failures
    read, parquet = Path.read_bytes, pq.ParquetFile

    def fail(path: Any) -> None:
        if left and ("f03" in str(path) or "documents-00003" in str(path)):
            raise left.pop()

    def reading(path: Path) -> bytes:
        fail(path)
        return read(path)

    def opening(path: Any, *arguments: Any, **options: Any) -> Any:
        fail(path)
        return parquet(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_bytes", reading)
    monkeypatch.setattr("rayner.data.readers.parquet.pq.ParquetFile", opening)
    if failures > faults.TRIES:
        with pytest.raises(
            RaynerError, match=r"(f03|documents-00003)\.\w+: cannot be read \(Input/output error"
        ):
            convert([files], tmp_path / "out", workers=0)
        left.clear()
    assert timeless(convert([files], tmp_path / "out", workers=0)) == timeless(wanted)
    assert content(tmp_path / "out") == content(tmp_path / "undisturbed")


def test_memory_that_runs_out_is_no_reason_to_reject(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "PAUSE", 0.0)

    def reader(unit: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(kept_parts, "read_unmerged", reader)
    with pytest.raises(RaynerError, match=r"f00\.conll: cannot be read \(MemoryError"):
        convert([files], tmp_path / "out", workers=0)


def test_nothing_readable_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_bytes(b"word\xff O\n")
    with pytest.raises(CorpusError, match=r"a\.conll:1"):
        convert([tmp_path / "a.conll"], tmp_path / "out", format="columns")
    with pytest.raises(CorpusError, match="no such file"):
        convert([tmp_path / "none"], tmp_path / "out")


def test_documents_of_others_are_left_alone(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write_parquet([Document("x", "mine")], out / "documents-00000.parquet")
    with pytest.raises(CorpusError, match="not from here"):
        convert([files], out, workers=0)
    assert read_corpus(out).documents[0].text == "mine"
    with pytest.raises(CorpusError, match="holds the input"):
        convert([files], files, workers=0)


DRIVER = """
import sys, time
from pathlib import Path
from rayner.data import scans
from rayner.runtime import faults
from rayner.runtime.corpora.convert import convert

out = Path(sys.argv[2])

def waits(document):
    # For good, once there is enough to go on from.
    while len(list(out.glob(".parts/*/part.json"))) >= 3:
        time.sleep(0.02)
    return document, {}

scans.PART_UNITS = 6
import rayner.runtime.corpora.convert as corpora
corpora.unchanged = waits
convert([Path(sys.argv[1])], out, workers=int(sys.argv[3]))
"""


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.faults)])
def test_a_killed_driver_goes_on_where_it_stopped(
    files: Path, tmp_path: Path, workers: int, request: pytest.FixtureRequest
) -> None:
    undisturbed = convert([files], tmp_path / "undisturbed", workers=0)
    out = tmp_path / "out"
    command = [sys.executable, "-c", DRIVER, str(files), str(out), str(workers)]
    driver = subprocess.Popen(command, env=request.getfixturevalue("joining") if workers else None)
    try:
        wait_for(lambda: len(list(out.glob(".parts/*/part.json"))) >= 3, process=driver)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert not (out / "counts.json").exists()
    assert 3 <= len(list(out.glob(".parts/*/part.json"))) < 9
    assert timeless(convert([files], out, workers=0)) == timeless(undisturbed)
    assert content(out) == content(tmp_path / "undisturbed")


def test_labels_are_scored_against_gold(files: Path, tmp_path: Path) -> None:
    dictionary = tmp_path / "names.txt"
    dictionary.write_text("PER\tEkeus\nPER\tParis\nLOC\tBaghdad\nORG\tU.N. official\n")
    counts = label(files, dictionary, tmp_path / "out", workers=0)
    assert counts["types"] == {"PER": 3 * 49, "ORG": 49, "LOC": 49}
    assert counts["names"] == 4
    assert counts["per_type"]["PER"] == pytest.approx(
        {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "support": 147}
    )
    assert counts["per_type"]["LOC"] == pytest.approx(
        {"precision": 1, "recall": 1 / 2, "f1": 2 / 3, "support": 98}
    )
    assert counts["per_type"]["ORG"]["f1"] == 0
    assert counts["precision"] == pytest.approx(3 / 5)
    assert counts["recall"] == pytest.approx(3 / 6)
    documents = read_corpus(tmp_path / "out").documents
    assert all(d.annotated_types == ("PER", "LOC", "ORG") for d in documents)
    assert label(files, dictionary, tmp_path / "out", workers=0) == counts
    dictionary.write_text("X\tnothing\n")
    again = label(files, dictionary, tmp_path / "out", workers=0)
    assert again["mentions"] == 0
    assert "precision" not in again


def test_labels_are_the_same_whatever_the_workers(files: Path, tmp_path: Path, ray_cluster: None) -> None:
    dictionary = tmp_path / "names.txt"
    dictionary.write_text("PER\tEkeus\n")
    alone = label(files, dictionary, tmp_path / "alone", workers=0)
    assert timeless(label(files, dictionary, tmp_path / "shared", workers=2)) == timeless(alone)
    assert content(tmp_path / "alone") == content(tmp_path / "shared")


def test_distant_labels_of_bc5cdr(corpora: Path, tmp_path: Path) -> None:
    # What was measured, rounded down; papers/000 (section 3) counts differently, see docs/decisions.md.
    train = corpora / "bc5cdr-pubtator" / "CDR_TrainingSet.PubTator.txt"
    scores = label(train, corpora / "autoner-bc5cdr" / "dict_core.txt", tmp_path)["per_type"]
    assert scores["Chemical"]["precision"] > 0.93
    assert scores["Chemical"]["recall"] > 0.83
    assert scores["Disease"]["precision"] > 0.86
    assert scores["Disease"]["recall"] > 0.69


def test_check_counts_and_names_faults(files: Path, tmp_path: Path) -> None:
    found = check([files])
    assert found["documents"] == 49
    assert found["rejected"] == found["errors"] == 1
    assert found["kinds"] == {"unreadable": 1}
    assert "f17.conll:1" in found["findings"][0]["where"]


def test_check_finds_leakage_between_splits(tmp_path: Path) -> None:
    mention = Mention(0, 5, "PER")
    for split in ("train", "dev"):
        write_parquet([Document(split, "Ekeus", (mention,))], tmp_path / f"{split}.parquet")
    both = check({split: [tmp_path / f"{split}.parquet"] for split in ("train", "dev")})
    assert both["kinds"] == {"leakage": 1}
    assert both["types"] == {"PER": 2}


def test_check_beside_a_recipe(tmp_path: Path) -> None:
    mention = Mention(0, 15, "PER")
    for split in ("train", "dev"):
        write_parquet(
            [Document(split, f"Ekeus and Smith {split}", (mention,))], tmp_path / f"{split}.parquet"
        )
    write_parquet([Document("more", "Ekeus", (Mention(0, 5, "LOC"),))], tmp_path / "more.parquet")
    values = {
        "task": "recognizer",
        "encoder": "random:8x1",
        "corpus": {split: [str(tmp_path / f"{split}.parquet")] for split in ("train", "dev")},
        "types": [{"name": "PER", "description": "people"}, {"name": "ORG", "description": "organizations"}],
        "model": {"max_span_width": 2},
    }
    paths = [tmp_path / "train.parquet", tmp_path / "more.parquet"]
    found = check(paths, parse_recipe(values, "test"))
    assert found["documents"] == 3
    assert found["kinds"] == {"too wide": 2, "type not in the recipe": 1, "type without mentions": 1}
    assert {f["split"] for f in found["findings"] if f["kind"] == "too wide"} == {"train", "dev"}
    assert (found["errors"], found["warnings"]) == (2, 2)
    corpus = values["corpus"] | {"rename": {"LOC": "ORG"}}
    renamed = check(paths, parse_recipe(values | {"corpus": corpus}, "test"))
    assert renamed["types"] == {"PER": 2, "ORG": 1}
    assert renamed["kinds"] == {"too wide": 2}


def test_what_documents_have_no_place_for_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Ann", "tags": [[0, 3, "PER"]]}\n')
    convert([path], tmp_path / "out", workers=0)
    assert "left out, as documents have no place for it: field tags (1)" in caplog.text
