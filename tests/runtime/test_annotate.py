from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rayner.data.readers import read_corpus
from rayner.errors import CheckpointError, CorpusError, InputError, RaynerError
from rayner.runtime.annotate import _pool, annotate
from rayner.runtime.annotation import run as annotate_run
from rayner.runtime.storage import place_of
from tests.runtime.annotate_model import CAPITALIZED, Capitals

TEXT = "Ada wrote to Charles in London about the Engine. "


def rows(out: Path) -> list[dict[str, Any]]:
    """The annotated documents, by id."""
    found = [row for path in sorted(out.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: row["document_id"])


def rejects(out: Path) -> list[dict[str, Any]]:
    """The table of rejects."""
    return [json.loads(line) for line in (out / "_rejects.jsonl").read_text().splitlines()]


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


def _parquet(path: Path, texts: Sequence[str], **options: Any) -> Path:
    table = pa.table({"document_id": [f"d{i}" for i in range(len(texts))], "text": list(texts)})
    pq.write_table(table, path, **options)
    return path


def _texts(folder: Path, texts: Sequence[str], packed: bool = False) -> Path:
    folder.mkdir()
    for i, text in enumerate(texts):
        data = text.encode()
        path = folder / (f"d{i}.txt" + (".gz" if packed else ""))
        path.write_bytes(gzip.compress(data) if packed else data)
    return folder


TEXTS = [TEXT * (1 + i % 5) + f"Number {i} 🙂 Émile" for i in range(50)]

FORMS: dict[str, Callable[[Path], Path]] = {
    "jsonl": lambda folder: write_jsonl(folder / "in.jsonl", TEXTS),
    "jsonl.gz": lambda folder: write_jsonl(folder / "in.jsonl.gz", TEXTS),
    "parquet": lambda folder: _parquet(folder / "in.parquet", TEXTS),
    "row groups": lambda folder: _parquet(folder / "in.parquet", TEXTS, row_group_size=7),
    "texts": lambda folder: _texts(folder / "in", TEXTS),
    "packed texts": lambda folder: _texts(folder / "in", TEXTS, packed=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_same_texts_has_the_same_answers(tmp_path: Path, form: str) -> None:
    given = FORMS[form](tmp_path)
    counts = here(given, tmp_path / "out")
    found = {row["document_id"]: row for row in rows(tmp_path / "out")}
    assert counts["documents"] == len(found) == len(TEXTS)
    assert counts["rejected"] == 0
    for i, text in enumerate(TEXTS):
        row = found[f"d{i}"]
        spans = [(m["start"], m["end"]) for m in row["mentions"]]
        assert spans == [m.span() for m in CAPITALIZED.finditer(text)]
        assert {(m["type"], m["score"]) for m in row["mentions"]} == {("CAP", 0.75)}
        assert row["windows"] == max(1, -(-len(text) // 400))
        assert row["model_version"] == "capitals-1"
    assert counts["mentions"] == sum(len(row["mentions"]) for row in found.values())


def test_the_folder_reads_as_one_parquet_data_set(tmp_path: Path) -> None:
    given = [write_jsonl(tmp_path / f"{n}.jsonl", TEXTS[:3], n) for n in "ab"]
    here(given, tmp_path / "out")
    assert pq.read_table(tmp_path / "out").num_rows == 6


def test_jsonl_and_brat_hold_the_same_mentions(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    here(given, tmp_path / "out", also=("jsonl", "brat"))
    wanted = {
        r["document_id"]: [(m["start"], m["end"]) for m in r["mentions"]] for r in rows(tmp_path / "out")
    }
    assert pq.read_table(tmp_path / "out").num_rows == len(TEXTS)
    for folder in ("_jsonl", "_brat"):
        reading = read_corpus([tmp_path / "out" / folder])
        assert {d.document_id: [(m.start, m.end) for m in d.mentions] for d in reading.documents} == wanted
        assert {d.document_id: d.text for d in reading.documents} == {f"d{i}": t for i, t in enumerate(TEXTS)}


def test_what_cannot_be_annotated_is_counted_with_its_place_and_reason(tmp_path: Path) -> None:
    good = json.dumps({"document_id": "good", "text": TEXT})
    lines = [
        good,
        "{not json",
        "",
        '{"document_id": "no text"}',
        '{"document_id": "null", "text": null}',
        '{"document_id": ["list"], "text": "x"}',
        '"a string"',
        '{"document_id": "", "text": "no id"}',
        '{"document_id": "half", "text": "\\ud800"}',
        "[" * 20_000,
        '{"text": "Unnamed"}',
        good,
        '{"document_id": "good", "text": "Another"}',
        '{"document_id": "bad mention", "text": "Ada", "mentions": [{"start": 2, "end": 9, "type": "X"}]}',
        '{"document_id": "fails", "text": "This one FAILS"}',
        '{"document_id": 7, "text": ""}',
        '{"document_id": "half", "text": "Ada", "group": "\\udfff"}',
        '{"document_id": "types", "text": "Ada", "annotated_types": [1]}',
        '{"document_id": "types", "text": "Ada", "annotated_types": "PER"}',
    ]
    (tmp_path / "a.jsonl").write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    (tmp_path / "latin.jsonl").write_bytes('{"document_id": "é", "text": "é"}\n'.encode("latin1"))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "utf16.txt").write_text("Ada" * 50, encoding="utf-16")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(good.encode() * 200)[:-9])
    (tmp_path / "noise.parquet").write_bytes(b"PAR1 noise")
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "columns.parquet")
    pq.write_table(
        pa.table({"document_id": pa.array([], pa.string()), "text": pa.array([], pa.string())}),
        tmp_path / "none.parquet",
    )
    inputs = sorted(p for p in tmp_path.iterdir())
    counts = here(inputs, tmp_path / "out")
    found = [row["document_id"] for row in rows(tmp_path / "out")]
    assert found == ["7", "a:11", "bad mention", "good"]
    lost = {
        r["where"].rpartition("/")[2]: r["what"] for r in rejects(tmp_path / "out") if r["lost"] == "document"
    }
    expected = {
        "a.jsonl:2": "not JSON",
        "a.jsonl:4": "no field `text`",
        "a.jsonl:5": "no field `text`",
        "a.jsonl:6": "document_id is",
        "a.jsonl:7": "no field `text`",
        "a.jsonl:8": "without an id",
        "a.jsonl:9": "surrogate",
        "a.jsonl:10": "not JSON",
        "a.jsonl:12": "its id 'good' is that of",
        "a.jsonl:13": "its id 'good' is that of",
        "a.jsonl:15": "the model failed on it (ValueError: it says FAILS)",
        "a.jsonl:17": "surrogate",
        "a.jsonl:18": "annotated_types [1] are not strings",
        "a.jsonl:19": "annotated_types is a string",
        "latin.jsonl:1": "0xe9 is not UTF-8",
        "empty.jsonl": "no documents",
        "empty.txt": "an empty file",
        "utf16.txt:1": "not UTF-8",
        "cut.jsonl.gz": "a broken gzip file",
        "noise.parquet": "not a Parquet file",
        "columns.parquet": "no column `document_id`",
        "none.parquet": "no documents",
    }
    assert lost.keys() == expected.keys()
    for where, what in expected.items():
        assert what in lost[where], where
    assert (counts["documents"], counts["rejected"], counts["duplicates"]) == (4, len(expected), 2)
    (mention,) = [r for r in rejects(tmp_path / "out") if r["lost"] == "mention"]
    assert "outside the text" in mention["what"]


def test_an_id_in_two_blocks_is_kept_where_it_comes_first(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "a.jsonl", TEXTS)
    again = write_jsonl(tmp_path / "b.jsonl", ["Else " + text for text in TEXTS[:20]])
    counts = here([again, first], tmp_path / "out", also=("jsonl", "brat"))
    assert (counts["documents"], counts["rejected"], counts["duplicates"]) == (50, 20, 20)
    found = rows(tmp_path / "out")
    assert len({row["document_id"] for row in found}) == 50
    assert sum(row["source"].startswith(str(again)) for row in found) == 20
    assert counts["mentions"] == sum(len(row["mentions"]) for row in found)
    assert counts["windows"] == sum(row["windows"] for row in found)
    texts = {f"d{i}": "Else " + text if i < 20 else text for i, text in enumerate(TEXTS)}
    for folder in ("_jsonl", "_brat"):
        reading = read_corpus([tmp_path / "out" / folder])
        assert {d.document_id: d.text for d in reading.documents} == texts


def test_dropping_what_stands_twice_can_be_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_jsonl(tmp_path / "a.jsonl", TEXTS)
    again = write_jsonl(tmp_path / "b.jsonl", ["Else " + text for text in TEXTS[:20]])

    def stop() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr("rayner.runtime.annotation.finish.pa.BufferOutputStream", stop)
        with pytest.raises(KeyboardInterrupt):
            here([again, first], tmp_path / "out", also=("jsonl",))
    assert here([again, first], tmp_path / "out", also=("jsonl",))["documents"] == 50
    assert len(read_corpus([tmp_path / "out" / "_jsonl"]).documents) == 50


def test_a_finished_annotation_is_not_done_again_and_a_changed_one_is_refused(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    counts = here(given, tmp_path / "out")
    assert here(given, tmp_path / "out", model=Capitals(broken=True)) == counts
    with pytest.raises(InputError, match="another model; name another folder, or start over with --fresh"):
        here(given, tmp_path / "out", model=Capitals("capitals-2"))
    write_jsonl(given, TEXTS[:7])
    with pytest.raises(InputError, match="another input"):
        here(given, tmp_path / "out")
    assert here(given, tmp_path / "out", fresh=True)["documents"] == len(rows(tmp_path / "out")) == 7


def test_an_interrupted_run_goes_on_and_ends_as_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut short after each number of blocks in turn, down to the last one."""
    given = [write_jsonl(tmp_path / f"{n}.jsonl", [t * 60 for t in TEXTS], n) for n in "ab"]
    here(given, tmp_path / "whole")
    done: list[str] = []

    class Stops(annotate_run.BlockAnnotator):
        def __call__(self, name: str, block: Any) -> Any:
            if len(done) % 3 == 2:
                done.append("stopped")
                raise KeyboardInterrupt
            done.append(name)
            return super().__call__(name, block)

    monkeypatch.setattr("rayner.runtime.annotate.BlockAnnotator", Stops)
    runs = 1
    while True:
        try:
            here(given, tmp_path / "out")
            break
        except KeyboardInterrupt:
            runs += 1
    names = [name for name in done if name != "stopped"]
    assert runs > 3
    assert len(set(names)) == len(names), "a block was done twice"
    assert rows(tmp_path / "out") == rows(tmp_path / "whole")


def test_lost_documents_are_noticed(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", [t * 60 for t in TEXTS])
    out = tmp_path / "out"

    class Loses(Capitals):
        def load(self, device: str | None) -> Any:
            predictor = super().load(device)
            forward = predictor.forward

            def forward_and_lose(windows: Any) -> Any:
                for path in out.glob("documents-*.parquet"):
                    pq.write_table(pq.read_table(path).slice(1), path)
                return forward(windows)

            predictor.forward = forward_and_lose
            return predictor

    with pytest.raises(RaynerError, match=r"50 documents were read, \d+ lie in the output"):
        here(given, out, model=Loses())


def test_nothing_annotated_is_an_error_and_leaves_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("{}\n{}\n")
    with pytest.raises(CorpusError, match=r"in\.jsonl:1: no field `text`"):
        here(tmp_path / "in.jsonl", tmp_path / "out")
    assert len(rejects(tmp_path / "out")) == 2


def test_a_broken_model_is_no_reason_to_reject_documents(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)

    class Fails(Capitals):
        def load(self, device: str | None) -> Any:
            predictor = super().load(device)
            predictor.forward = None
            return predictor

    with pytest.raises(TypeError):
        here(given, tmp_path / "out", model=Fails())
    assert here(given, tmp_path / "out")["documents"] == len(TEXTS)


def test_places_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    given = write_jsonl(folder / "in.jsonl", TEXTS)
    (folder / "table.csv").write_text("x")
    (tmp_path / "linked").symlink_to(folder)
    for inputs, out, what in (
        (tmp_path / "none", tmp_path / "out", "no such file or folder"),
        (folder / "table.csv", tmp_path / "out", "its name ends in none of .parquet"),
        (folder, folder / "out", "lies in the input"),
        (folder, folder, "lies in the input"),
        (folder, tmp_path / "linked" / "out", "lies in the input"),
        (folder, folder / ".." / "in" / "out", "lies in the input"),
        (tmp_path / "linked" / "in.jsonl", folder, "holds the input"),
        (given, folder, "holds the input"),
        (given, folder / "table.csv", "is a file"),
        (Path("nowhere://bucket/x"), tmp_path / "out", "no such file"),
    ):
        with pytest.raises(InputError, match=what):
            here(inputs, out)
    with pytest.raises(InputError, match="cannot be reached"):
        annotate(Capitals(), ["nowhere://bucket/x"], tmp_path / "out", workers=0)
    (tmp_path / "foreign").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign" / "documents-00000.parquet")
    for fresh in (False, True):
        with pytest.raises(InputError, match="holds documents that are not from here"):
            here(given, tmp_path / "foreign", fresh=fresh)
    assert (tmp_path / "foreign" / "documents-00000.parquet").exists()


def test_files_of_other_kinds_are_left_aside(tmp_path: Path) -> None:
    folder = _texts(tmp_path / "in", TEXTS[:4])
    for name in ("README.md", ".hidden.txt", "d0.ann", "_SUCCESS", "LICENSE.txt"):
        (folder / name).write_text("Nothing")
    assert here(folder, tmp_path / "out")["documents"] == 4


@pytest.mark.parametrize("form", ["file://{}", "local://{}", "memory://rayner{}"])
def test_uris_of_pyarrow_and_of_fsspec(tmp_path: Path, form: str) -> None:
    import fsspec

    given = write_jsonl(tmp_path / "in.jsonl.gz", TEXTS)
    uri = form.format(given)
    data = given.read_bytes()
    with fsspec.open(uri, "wb") as file:
        file.write(data)
    counts = annotate(Capitals(), [uri], form.format(tmp_path / "out"), workers=0, also=("jsonl", "brat"))
    assert counts["documents"] == len(TEXTS)
    here(given, tmp_path / "plain")
    paths = fsspec.open_files(form.format(tmp_path / "out") + "/*.parquet")
    found = []
    for path in paths:
        with path as file:
            found += pq.read_table(file).to_pylist()
    wanted = [{k: v for k, v in row.items() if k != "source"} for row in rows(tmp_path / "plain")]
    found.sort(key=lambda row: row["document_id"])
    assert [{k: v for k, v in row.items() if k != "source"} for row in found] == wanted
    assert (
        annotate(Capitals(), [uri], form.format(tmp_path / "out"), workers=0, also=("jsonl", "brat"))
        == counts
    )


def test_one_path_on_two_file_systems_is_two_inputs(tmp_path: Path) -> None:
    import fsspec

    here_path = tmp_path / "in.jsonl"
    here_path.write_text('{"text": "Ada"}\n')
    with fsspec.open(f"memory://{here_path}", "w") as file:
        file.write('{"text": "Charles"}\n')  # type: ignore[union-attr]
    counts = annotate(Capitals(), [here_path, f"memory://{here_path}"], tmp_path / "out", workers=0)
    assert (counts["documents"], counts["rejected"]) == (2, 0)


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)

    class RunsAnother(Capitals):
        def load(self, device: str | None) -> Any:
            with pytest.raises(InputError, match="another run is writing"):
                here(given, tmp_path / "out")
            return super().load(device)

    assert here(given, tmp_path / "out", model=RunsAnother())["documents"] == len(TEXTS)


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    given = [write_jsonl(tmp_path / f"{n}.jsonl", [t * 60 for t in TEXTS], n) for n in "ab"]
    out = tmp_path / "out"
    names = (
        "documents-00000-00001.parquet",
        "_jsonl/documents-00000-00001.jsonl",
        "_brat/00000-00001/d1.ann",
    )
    left = [(out / name).with_name(f".{Path(name).name}.0123456789abcdef.partial") for name in names]
    users = out / ".notes.partial"

    class Killed(Capitals):
        def load(self, device: str | None) -> Any:
            for path in (*left, users):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            raise KeyboardInterrupt

    for fresh in (False, True):
        with pytest.raises(KeyboardInterrupt):
            here(given, out, model=Killed(), also=("jsonl", "brat"), fresh=fresh)
        here(given, out, also=("jsonl", "brat"), fresh=fresh)
        assert not [path for path in left if path.exists()]
        assert users.exists()


def test_writers_of_one_file_do_not_share_their_partial_files(tmp_path: Path) -> None:
    place = place_of(tmp_path / "file")
    with place.writing() as first:
        first.write(b"first")
        with place.writing() as second:
            second.write(b"second")
        assert place.read() == b"second"
    assert place.read() == b"first"


@pytest.mark.parametrize(("gpus", "device"), [(None, None), (0.0, "cpu")])
def test_work_in_this_process_heeds_gpus(tmp_path: Path, gpus: float | None, device: str | None) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    devices = []

    class Notes(Capitals):
        def load(self, device: str | None) -> Any:
            devices.append(device)
            return super().load(device)

    here(given, tmp_path / "out", model=Notes(), gpus=gpus)
    here(given, tmp_path / "small", model=Notes(), gpus=gpus, workers=None)
    assert devices == [device, device]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_this_process_does_not_see_is_refused(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    with pytest.raises(InputError, match="--gpus: asks for 1 where this process"):
        here(given, tmp_path / "out", gpus=1.0)


def test_a_cluster_without_room_for_any_worker_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rayner.runtime.cluster.ensure_ray", lambda: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0})
    assert _pool(None, None, 1.0, 1.0).most == 1
    assert "room for 0 of 1 workers" in caplog.text


def test_a_run_that_did_nothing_binds_nobody(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    with pytest.raises(CheckpointError):
        here(given, tmp_path / "out", model=Capitals("broken", broken=True))
    assert here(given, tmp_path / "out", model=Capitals("mended"))["documents"] == len(TEXTS)
