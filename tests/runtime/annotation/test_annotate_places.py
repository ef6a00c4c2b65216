"""Where `annotate` reads and writes: files, folders and URIs, and who else may be there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rayner.errors import CheckpointError, InputError
from rayner.files import places
from rayner.files.places import place_of
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.annotation.input_shards import find_sources
from rayner.runtime.annotation.pools import PoolSettings, pool_of
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import (
    TEXTS,
    here,
    rows,
    write_jsonl,
    write_texts,
)


def test_places_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    given = write_jsonl(folder / "in.jsonl", TEXTS)
    (folder / "table.csv").write_text("x")
    (tmp_path / "linked").symlink_to(folder)
    os.mkfifo(tmp_path / "pipe.jsonl")
    for inputs, out, what in (
        (tmp_path / "none", tmp_path / "out", "no such file or folder"),
        (tmp_path / "pipe.jsonl", tmp_path / "out", "is a pipe or a device"),
        (folder / "table.csv", tmp_path / "out", "its name ends in none of .parquet"),
        (folder, folder / "out", "lies in the input"),
        (folder, folder, "holds the input"),
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
    folder = write_texts(tmp_path / "in", TEXTS[:4])
    for name in ("README.md", ".hidden.txt", "d0.ann", "_SUCCESS", "LICENSE.txt"):
        (folder / name).write_text("Nothing")
    assert here(folder, tmp_path / "out")["documents"] == 4


def told(caplog: pytest.LogCaptureFixture, folder: Path) -> list[str]:
    """The warnings, with names in the folder."""
    found = [record.getMessage().replace(f"{folder}/", "") for record in caplog.records]
    return [one.partition(": ")[2] for one in found if one.startswith("left aside")]


def test_what_is_left_aside_of_a_folder_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write_texts(tmp_path / "in", TEXTS[:2])
    write_jsonl(folder / "source.jsonl", TEXTS[:3], "s")
    for name in ("license.txt", "_notes.txt", "table.csv", "losses.jsonl", ".hidden.txt", "README.md"):
        (folder / name).write_text("Nothing")
    (folder / "_SUCCESS").touch()
    (folder / "b.jsonl").symlink_to("/nowhere/b.jsonl")
    (folder / ".#d0.txt").symlink_to("user@host.1")
    assert here(folder, tmp_path / "out")["documents"] == 5
    aside = "4 files (_notes.txt, license.txt, losses.jsonl and 1 more)"
    assert told(caplog, folder) == [aside, "1 file (b.jsonl)"]
    caplog.clear()
    names = [folder / name for name in ("license.txt", "_notes.txt", "losses.jsonl")]
    here([folder, *names], tmp_path / "named")
    assert told(caplog, folder) == ["1 file (table.csv)", "1 file (b.jsonl)"]


def test_what_commands_of_ours_leave_beside_documents_is_left_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = write_texts(tmp_path / "in", TEXTS[:2])
    here(given, given.parent / "all/annotated", also=("jsonl", "brat"))
    converted = tmp_path / "all/converted"
    write_jsonl(tmp_path / "all/rows.jsonl", TEXTS[:1])
    converted.mkdir()
    for name in ("counts.json", "losses.jsonl", "rejects.jsonl"):
        (converted / name).write_text("{}")
    caplog.clear()
    here(tmp_path / "all", tmp_path / "out")
    assert told(caplog, tmp_path) == []
    (converted / "counts.json").unlink()
    (tmp_path / "all/annotated/_annotation.json").unlink()
    here(tmp_path / "all", tmp_path / "other")
    (aside,) = told(caplog, tmp_path / "all")
    assert aside.startswith("8 files (annotated/_brat/00000-00000/d0.ann, ")


def test_a_file_is_one_however_it_is_spelled(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    given = write_jsonl(folder / "a.jsonl", TEXTS[:2])
    counts = here([given, folder / ".." / "in" / "a.jsonl"], tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (2, 0)
    assert here(folder / ".." / "in" / "a.jsonl", tmp_path / "in" / ".." / "out") == counts
    # Behind a link, `..` is where the link leads to.
    (tmp_path / "far/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far/deep")
    write_jsonl(tmp_path / "far/a.jsonl", TEXTS[:3])
    write_jsonl(tmp_path / "a.jsonl", TEXTS[:4])
    assert here(tmp_path / "link" / ".." / "a.jsonl", tmp_path / "linked")["documents"] == 3


@pytest.mark.parametrize("name", ["in", "in/a.jsonl"])
def test_a_store_without_times_tells_what_changed(tmp_path: Path, name: str) -> None:
    import fsspec

    store, home = fsspec.filesystem("memory"), f"rayner-times{tmp_path}"
    store.pipe(f"/{home}/in/a.jsonl", b'{"text": "Ada"}')
    given = f"memory://{home}/{name}"
    counts = annotate(Capitals(), [given], tmp_path / "out", workers=0)
    assert annotate(Capitals(), [given], tmp_path / "out", workers=0) == counts
    store.pipe(f"/{home}/in/a.jsonl", b'{"text": "Bob"}')
    with pytest.raises(InputError, match="another input"):
        annotate(Capitals(), [given], tmp_path / "out", workers=0)


def test_of_a_store_that_says_nothing_the_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    fsspec.filesystem("memory").pipe("/rayner-timeless/a.jsonl", b"{}")
    monkeypatch.setattr(places, "_TELL_OF_CHANGES", ())
    assert [source.modified for source in find_sources(["memory://rayner-timeless"])[0]] == [0]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "in", TEXTS[:2])
    write_texts(tmp_path / "more", TEXTS[:3])
    for link, to in (
        *(("again", "."), ("once more", "../in")),
        *(("more", "../more"), ("nothing", "none"), ("round.txt", "round.txt")),
    ):
        (folder / link).symlink_to(to)
    (folder / "more.txt").symlink_to("d0.txt")
    counts = here(folder, tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (6, 0)
    names = [row["document_id"] for row in rows(tmp_path / "out")]
    assert names == ["d0", "d1", "more", "more/d0", "more/d1", "more/d2"]


def test_a_name_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "in", TEXTS[:2])
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.csv")).touch()
    assert here(folder, tmp_path / "out")["documents"] == 2
    path = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt"))
    path.write_text("Ada")
    for given in (folder, path):
        with pytest.raises(InputError, match=r"caf\\udce9\.txt: the name is not UTF-8; rename it"):
            here(given, tmp_path / "other")


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
            with pytest.raises(InputError, match=r"another process .* annotates into this folder"):
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


def test_a_file_that_is_given_up_does_not_take_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it appears, with what there is of it, when its stream is closed, as in an object store."""
    place = place_of("memory://store/file")
    monkeypatch.setattr(places, "_WHOLE_ON_CLOSE", {place.filesystem.type_name})

    def give_up() -> None:
        with place.writing() as stream:
            stream.write(b"a part")
            raise KeyboardInterrupt

    for before in (None, b"whole"):
        with pytest.raises(KeyboardInterrupt):
            give_up()
        assert place.read() == before
        place.write(b"whole")
        assert place.read() == b"whole"


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


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (PoolSettings(gpus=1.5), r"--gpus: 1\.5 is neither whole nor below 1"),
        (PoolSettings(gpus=1e-5), r"--gpus: 1e-05 is less than Ray counts: at least 0\.0001"),
        (PoolSettings(cpus=1e-5), r"--cpus: 1e-05 is less than Ray counts: at least 0\.0001"),
    ],
)
def test_resources_that_ray_refuses_are_refused(asked: PoolSettings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        asked.check()


def test_a_cluster_without_room_for_any_worker_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rayner.runtime.cluster.ensure_ray", lambda: None)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 4.0})
    assert pool_of(PoolSettings(cpus=1.0, gpus=1.0), None).most == 1
    assert "room for 0 of 1 worker " in caplog.text


def test_a_run_that_did_nothing_binds_nobody(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    with pytest.raises(CheckpointError):
        here(given, tmp_path / "out", model=Capitals("broken", broken=True))
    assert here(given, tmp_path / "out", model=Capitals("repaired"))["documents"] == len(TEXTS)
