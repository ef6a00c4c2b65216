"""Conversions at a URI: each part is put there by a machine that sees nothing of what others have."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rayner.data import scans
from rayner.data.readers import find_units
from rayner.errors import CorpusError, InputError, StorageError
from rayner.files import objects, publishing, tries
from rayner.files.manifests import decode
from rayner.files.publishing import TakenOverError
from rayner.runtime import faults
from rayner.runtime.corpora import kept_parts
from rayner.runtime.corpora.convert import convert, label, process
from rayner.runtime.corpora.resolve import resolve_texts
from tests.object_storage import BUCKET, Storage
from tests.runtime.corpora.converted import content

HOME = f"s3://{BUCKET}/conversions"
PARTS = 4


def write(folder: Path, number: int, text: str = "Ada Lovelace wrote. She wrote to Ann.") -> None:
    """A file with a document that the next file has too, and one that differs in each."""
    mention = {"start": 0, "end": 3, "type": "PER"}
    rows = [
        *({"document_id": f"d{number}-{i}", "text": f"{text} {i}", "mentions": [mention]} for i in range(3)),
        {"document_id": f"d{number}-0", "text": f"{text} 0", "mentions": [mention]},
        {"document_id": "clash", "text": f"Ada {number}.", "mentions": [mention]},
    ]
    folder.mkdir(exist_ok=True)
    (folder / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scans, "PART_UNITS", 1)
    for number in range(PARTS):
        write(tmp_path / "in", number)
    return tmp_path / "in"


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The parts that were worked on, each on a machine of its own."""
    worked: list[Any] = []

    def mapped(work: Callable[[Any], Any], parts: Iterable[Any], workers: int | None) -> Iterator[Any]:
        for part in parts:
            there = pickle.loads(pickle.dumps((work, part)))
            with monkeypatch.context() as patch:
                patch.setenv("RAYNER_LOCAL", str(tmp_path / f"machine-{len(worked)}"))
                worked.append(part)
                done = there[0](there[1])
            yield done

    monkeypatch.setattr(kept_parts, "parallel_map", mapped)
    return worked


def check_only_what_is_named(storage: Storage, name: str) -> None:
    """There is nothing at the URI beside its manifest and what that names."""
    import obstore

    prefix = f"conversions/{name}"
    data = bytes(obstore.get(storage.store(), f"{prefix}/_manifest.json").bytes())
    named = {f"{prefix}/{entry.object}" for entry in decode(data, name).files.values()}
    assert {*storage.objects(f"{prefix}/")} == {*named, f"{prefix}/_manifest.json"}


@pytest.mark.parametrize("to", ["parquet", "jsonl", "brat"])
def test_machines_that_see_nothing_of_each_other_make_what_one_makes_in_a_folder(
    storage: Storage, corpus: Path, apart: list[Any], tmp_path: Path, to: str
) -> None:
    counts = convert([corpus], tmp_path / "out", workers=0, to=to)
    alone = len(apart)
    place = f"{HOME}/{to}"
    at_uri = convert([corpus], Path(place), workers=0, to=to)
    assert len(apart) == 2 * alone
    assert (at_uri["documents"], at_uri["rejected"]) == (counts["documents"], counts["rejected"])
    assert (counts["documents"], counts["rejected"]) == (3 * PARTS + 1, PARTS - 1)
    assert content(place) == content(tmp_path / "out")
    check_only_what_is_named(storage, to)
    assert not list((tmp_path / "machine").glob("work/*/*/documents-*"))
    storage.seen.clear()
    assert convert([corpus], Path(place), workers=0, to=to) == at_uri
    assert len(apart) == 2 * alone
    assert not [path for method, path in storage.seen if method == "GET" and "documents" in path]


def test_what_shares_the_parts_works_there_too(
    storage: Storage, corpus: Path, apart: list[Any], tmp_path: Path
) -> None:
    names = tmp_path / "names.txt"
    names.write_text("PER\tAnn\n", "utf-8")
    for name, command in (
        ("labelled", lambda out: label(corpus, names, out, workers=0)),
        ("resolved", lambda out: resolve_texts([corpus], out, ["rules"], workers=0)),
    ):
        command(tmp_path / name)
        command(Path(f"{HOME}/{name}"))
        assert content(f"{HOME}/{name}") == content(tmp_path / name)
        check_only_what_is_named(storage, name)


def test_large_files_are_cut_on_one_machine_and_read_on_others(
    storage: Storage, apart: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("rayner.data.readers.files", "rayner.data.scans"):
        monkeypatch.setattr(f"{module}.PART_BYTES", 200)
    write(tmp_path / "in", 0)
    convert([tmp_path / "in"], tmp_path / "out", workers=0)
    alone = len(apart)
    assert alone > 3
    convert([tmp_path / "in"], Path(f"{HOME}/cut"), workers=0)
    assert len(apart) == 2 * alone
    assert content(f"{HOME}/cut") == content(tmp_path / "out")
    check_only_what_is_named(storage, "cut")


def interrupted(mapped: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """As this, killed after the first part."""

    def once(*arguments: Any) -> Iterator[Any]:
        for done in mapped(*arguments):
            yield done
            raise KeyboardInterrupt

    return once


@pytest.mark.parametrize("to", ["parquet", "iob2"])
def test_what_was_killed_is_gone_on_with_on_any_machine(
    storage: Storage,
    corpus: Path,
    apart: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    to: str,
) -> None:
    convert([corpus], tmp_path / "out", workers=0, to=to)
    whole, place = len(apart), f"{HOME}/killed-{to}"
    apart.clear()
    for number in range(1, whole + 1):
        with monkeypatch.context() as patch:
            patch.setattr(kept_parts, "parallel_map", interrupted(kept_parts.parallel_map))
            patch.setenv("RAYNER_LOCAL", str(tmp_path / f"driver-{number}"))
            with pytest.raises(KeyboardInterrupt):
                convert([corpus], Path(place), workers=0, to=to)
        assert len(apart) == number
    convert([corpus], Path(place), workers=0, to=to)
    assert len(apart) == whole
    assert content(place) == content(tmp_path / "out")
    check_only_what_is_named(storage, f"killed-{to}")


def test_half_of_a_part_does_not_count(
    storage: Storage, corpus: Path, apart: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "TRIES", 1)
    monkeypatch.setattr(tries, "TRIES", 1)
    place = f"{HOME}/half"
    convert([corpus], tmp_path / "out", workers=0)
    apart.clear()
    failed: list[str] = []

    def of_the_third(method: str, path: str) -> Any:
        if method == "PUT" and "/parts/" in path and path.endswith("_manifest.json") and len(apart) == 3:
            failed.append(path)
            return "503"
        return None

    storage.fault = of_the_third
    with pytest.raises(StorageError, match=f"{HOME}/half/_objects/parts/.*cannot be written to"):
        convert([corpus], Path(place), workers=0)
    assert failed
    storage.works()
    [lost] = {path.split("/")[-2] for path in failed}
    assert storage.objects(f"conversions/half/_objects/parts/{lost}/")
    convert([corpus], Path(place), workers=0)
    read = [part.key for part in apart if isinstance(part, kept_parts.Part)]
    assert (len(read), read.count(lost)) == (PARTS + 1, 2)
    assert content(place) == content(tmp_path / "out")
    check_only_what_is_named(storage, "half")


def test_until_the_end_there_is_what_was_there_before(storage: Storage, corpus: Path, tmp_path: Path) -> None:
    place = f"{HOME}/before"
    convert([corpus], Path(place), workers=0)
    before, seen = content(place), list[dict[str, bytes]]()
    write(corpus, PARTS)

    def looking(document: Any) -> Any:
        if document.document_id == "clash":
            seen.append(content(place))
        return document, {}

    process(find_units([corpus]), looking, "convert", Path(place), 0, fresh=True)
    assert seen
    assert all(one == before for one in seen)
    convert([corpus], tmp_path / "out", workers=0)
    now, wanted = content(place), content(tmp_path / "out")
    assert {**now, "counts": b""} == {**wanted, "counts": b""}
    check_only_what_is_named(storage, "before")
    for path in sorted(corpus.iterdir())[2:]:
        path.unlink()
    convert([corpus], Path(place), workers=0)
    convert([corpus], tmp_path / "fewer", workers=0)
    assert content(place) == content(tmp_path / "fewer")
    check_only_what_is_named(storage, "before")


def test_a_corpus_of_which_nothing_comes_out_leaves_what_was_there(
    storage: Storage, corpus: Path, tmp_path: Path
) -> None:
    place = f"{HOME}/nothing"
    convert([corpus], Path(place), workers=0)
    before = content(place)
    (tmp_path / "bad.jsonl").write_text('{"text": 3}\n')
    for fresh in (False, True):
        with pytest.raises(CorpusError, match=r"bad\.jsonl:1"):
            convert([tmp_path / "bad.jsonl"], Path(place), workers=0, fresh=fresh)
        assert content(place) == before
    check_only_what_is_named(storage, "nothing")


def test_what_is_lost_of_a_finished_one_is_told_and_made_again_when_asked(
    storage: Storage, corpus: Path, apart: list[Any]
) -> None:
    import obstore

    place = f"{HOME}/lost"
    convert([corpus], Path(place), workers=0)
    before, worked = content(place), len(apart)
    lost = next(name for name in storage.objects("conversions/lost/") if name.endswith("documents.parquet"))
    obstore.delete(storage.store(), [lost])
    with pytest.raises(InputError, match=r"names an object that is gone .*start over"):
        convert([corpus], Path(place), workers=0)
    convert([corpus], Path(place), workers=0, fresh=True)
    assert len(apart) == 2 * worked
    assert content(place) == before
    check_only_what_is_named(storage, "lost")


def test_of_two_the_later_one_goes_on(
    storage: Storage, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, begun = f"{HOME}/two", list[int]()

    def another(document: Any) -> Any:
        if not begun:
            begun.append(1)
            with monkeypatch.context() as patch:
                patch.setenv("RAYNER_LOCAL", str(tmp_path / "another"))
                convert([corpus], Path(place), workers=0)
        return document, {}

    with pytest.raises(TakenOverError, match="is written by another process"):
        process(find_units([corpus]), another, "change", Path(place), 0, fresh=False)
    convert([corpus], tmp_path / "out", workers=0)
    assert content(place) == content(tmp_path / "out")


@pytest.mark.parametrize("lost", ["ids", "documents"])
def test_a_part_whose_objects_a_later_run_removed_under_way_is_made_again(
    storage: Storage, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A task of a run that was replaced puts its part's manifest after the other one's --fresh."""
    place, late = f"{HOME}/late-{lost}", list[str]()
    put = publishing.Publication._write

    def putting(publication: publishing.Publication, state: Any) -> None:
        if "/parts/" in publication.uri and not late:
            late.extend(e.object for name, e in state.files.items() if name.startswith(lost))
            publication._objects.remove(late)
        put(publication, state)

    with monkeypatch.context() as patch:
        patch.setattr(publishing.Publication, "_write", putting)
        with pytest.raises(StorageError, match=r"is not whole .*; run the same command again"):
            convert([corpus], Path(place), workers=0)
    assert late
    convert([corpus], Path(place), workers=0)
    convert([corpus], tmp_path / "out", workers=0)
    assert content(place) == content(tmp_path / "out")
    check_only_what_is_named(storage, f"late-{lost}")


def test_parts_that_a_run_left_at_its_very_end_go_with_the_next_one(
    storage: Storage, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{HOME}/left"
    remove = objects.Objects.remove

    def killed(found: objects.Objects, names: list[str]) -> None:
        if any("/parts/" in name for name in names):
            raise KeyboardInterrupt
        remove(found, names)

    with monkeypatch.context() as patch:
        patch.setattr(objects.Objects, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            convert([corpus], Path(place), workers=0, to="jsonl")
    before = content(place)
    convert([corpus], Path(place), workers=0, to="jsonl")
    assert content(place) == before
    check_only_what_is_named(storage, "left")
