"""Files of folders are listed once, in the order of their paths."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from rayner.data import scans
from rayner.data.readers import find_units, read_corpus
from rayner.errors import CorpusError, FileError, InputError

NAMES = ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt", "c.txt/d.txt", "a b.txt", "README.txt", "notes.md")
HIDDEN = (".git/a.txt", "_work/a.txt", "a/_b.txt", "counts.json", "License", "source.txt.gz")


def write(folder: Path) -> None:
    for name in (*NAMES, *HIDDEN):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Some text.\n")
    (folder / "a/link.txt").symlink_to(folder / "b.txt")
    (folder / "linked").symlink_to(folder / "a", target_is_directory=True)


def test_what_is_listed_is_as_the_paths_sort(tmp_path: Path) -> None:
    write(tmp_path)
    found = [Path(unit.paths[0]) for unit in find_units(tmp_path)]
    assert found == sorted(tmp_path / name for name in (*NAMES[:6], "a/link.txt"))
    assert next(unit.name for unit in find_units(tmp_path)) == "c"


def test_links_lead_to_folders_elsewhere_and_in_no_circle(tmp_path: Path) -> None:
    for name in ("in/own/a.txt", "elsewhere/b.txt", "third/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("Some text.\n")
    for link, to in (
        *(("in/again", "."), ("in/own again", "own"), ("in/all", ".."), ("in/round.txt", "round.txt")),
        *(("in/nothing", "none"), ("in/linked", "../elsewhere"), ("elsewhere/further", "../third")),
        *(("third/back", "../elsewhere"), ("third/home", "../in/own")),
    ):
        (tmp_path / link).symlink_to(to)
    found = [unit.paths[0] for unit in find_units(tmp_path / "in")]
    names = ("linked/b.txt", "linked/further/c.txt", "own/a.txt")
    assert found == [str(tmp_path / "in" / name) for name in names]


def test_a_corpus_is_listed_once_and_each_file_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    listed, asked = Counter[str](), Counter[str]()
    scan, ask = os.scandir, os.stat

    def scandir(path: str | Path) -> object:
        if Path(str(path)).is_relative_to(tmp_path):  # Threads of Ray in this process list and ask too.
            listed[str(path)] += 1
        return scan(path)

    def stat(path: str | Path, *arguments: object, **options: object) -> os.stat_result:
        if Path(str(path)).is_relative_to(tmp_path):
            asked[str(path)] += 1
        return ask(path, *arguments, **options)  # pyright: ignore[reportCallIssue, reportArgumentType]

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "stat", stat)
    units = find_units(tmp_path)
    assert set(listed.values()) == {1}
    asked.clear()
    scans.cut_parts(units)
    assert asked == Counter(unit.paths[0] for unit in units)
    listed.clear()
    assert len(read_corpus(tmp_path).documents) == len(units)
    assert set(listed.values()) == {1}


def test_a_folder_that_cannot_be_listed_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    scan = os.scandir

    def scandir(path: str | Path) -> object:
        if Path(path).name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(FileError, match=r"/a/b: Permission denied"):
        find_units(tmp_path)


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(CorpusError, match=r"pipe\.jsonl: is a pipe or a device; write it to a file"):
        find_units(tmp_path / "pipe.jsonl")
    (tmp_path / "a.txt").write_text("Some text.\n")
    assert len(find_units(tmp_path)) == 1


def test_a_name_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Some text.\n")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("Some text.\n")
    with pytest.raises(InputError, match=r"caf\\udce9\.txt: the name is not UTF-8; rename it"):
        find_units(tmp_path)


def test_a_text_with_annotations_is_no_documentation(tmp_path: Path) -> None:
    for name in ("Source", "a", "license"):
        (tmp_path / f"{name}.txt").write_text("Ann ran.")
        (tmp_path / f"{name}.ann").write_text("T1\tPER 0 3\tAnn\n")
    (tmp_path / "README.txt").write_text("What this is.")
    found = {document.document_id for document in read_corpus(tmp_path).documents}
    assert found == {"Source", "a", "license"}
