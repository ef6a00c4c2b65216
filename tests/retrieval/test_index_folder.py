"""An index on disk: the same answers, whole versions, clear errors."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rayner.config import IndexSettings
from rayner.data.entity_ids import entity_of_id
from rayner.data.schema import Entity
from rayner.errors import IndexFolderError, InputError, KnowledgeBaseError
from rayner.files import folders
from rayner.retrieval import index_files, index_folder
from rayner.retrieval.build import build_index
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.index_folder import (
    KEPT,
    add_entities,
    check_target,
    describe_index,
    open_index,
    remove_entities,
    version_of_index,
    write_index,
)
from tests.retrieval.letters import ENTITIES, Letters
from tests.waiting import wait_for

QUERIES = ["breast cancer", "APC carrier", "huntington", "диабет", ""]


def built(entities=ENTITIES, **settings) -> EntityIndex:
    return build_index(entities, Letters(), IndexSettings(**settings), "cosine")


def answers(index: EntityIndex):
    return index.search(QUERIES, Letters()(QUERIES), 3, 0.5)


def versions(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


@pytest.mark.parametrize("search", ["exact", "ivf", "hnsw"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean", "squared_euclidean"])
def test_it_answers_as_before(tmp_path: Path, search, distance) -> None:
    settings = IndexSettings(search=search, ngrams=(2, 3))
    index = build_index(ENTITIES, Letters(), settings, distance)
    assert write_index(index, tmp_path / "new" / "index", {"version": "abc"}) == 1
    opened = open_index(tmp_path / "new" / "index")
    assert answers(opened) == answers(index)
    assert list(opened.entities) == list(ENTITIES)
    assert list(opened.entities[1:3]) == list(ENTITIES[1:3])
    assert opened.entities[-1] == ENTITIES[-1]
    assert (opened.settings, opened.origin, opened.version) == (settings, {"version": "abc"}, 1)


def test_vectors_stay_on_disk(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    vectors = open_index(tmp_path).dense.vectors
    while vectors.base is not None and not isinstance(vectors, np.memmap):
        vectors = vectors.base
    assert isinstance(vectors, np.memmap)


def test_what_proposes_stays_on_disk_too_and_may_be_lacking(tmp_path: Path) -> None:
    index = built(search="ivf")
    write_index(index, tmp_path)
    opened = open_index(tmp_path)
    assert index.dense.bits is not None
    np.testing.assert_array_equal(opened.dense.bits, index.dense.bits)
    assert built(search="hnsw").dense.bits is built(search="exact").dense.bits is None
    # As an earlier rayner wrote it.
    index.dense.bits = None
    write_index(index, tmp_path)
    assert open_index(tmp_path).dense.bits is None
    assert answers(open_index(tmp_path)) == answers(opened)


@pytest.mark.parametrize("search", ["exact", "ivf"])
def test_added_and_removed_equals_built(tmp_path: Path, search) -> None:
    write_index(built(ENTITIES[:3], search=search), tmp_path, {"version": "abc"})
    encode = Letters()
    added = add_entities(tmp_path, ENTITIES[3:], encode)
    assert sorted(encode.encoded) == sorted(n for e in ENTITIES[3:] for n in (e.name, *e.aliases))
    assert answers(added) == answers(open_index(tmp_path)) == answers(built(search=search))
    removed = remove_entities(tmp_path, ["D2", "D5"])
    kept = [e for e in ENTITIES if e.entity_id not in ("D2", "D5")]
    assert answers(removed) == answers(open_index(tmp_path)) == answers(built(kept, search=search))
    assert (removed.version, removed.origin) == (3, {"version": "abc"})
    assert describe_index(tmp_path)["entities"] == 3


def test_names_that_the_index_has_are_not_encoded_again(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    encode = Letters()
    more = [Entity("D7", "hypertension", ("APC", "high tension")), Entity("D8", "gout", ("high tension",))]
    added = add_entities(tmp_path, more, encode)
    assert sorted(encode.encoded) == ["gout", "high tension"]
    assert answers(added) == answers(open_index(tmp_path)) == answers(built([*ENTITIES, *more]))
    encode = Letters()
    add_entities(tmp_path, [Entity("D9", "gout")], encode)
    assert encode.encoded == []


def test_the_abbreviations_follow(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    assert open_index(tmp_path).expand("APC test") == "adenomatous polyposis coli test"
    add_entities(tmp_path, [Entity("D9", "activated protein C", ("APC",))], Letters())
    assert open_index(tmp_path).expand("APC test") == "APC test"
    remove_entities(tmp_path, ["D1"])
    assert open_index(tmp_path).expand("APC test") == "activated protein C test"


def test_other_ids_follow_their_entities(tmp_path: Path) -> None:
    further = {"D1": ("O1",), "D2": ("O2",)}
    entities = [replace(entity, other_ids=further.get(entity.entity_id, ())) for entity in ENTITIES]
    write_index(build_index(entities, Letters(), IndexSettings(), "cosine"), tmp_path)
    assert meant(tmp_path) == {"O1": "D1", "O2": "D2", "O9": None}
    add_entities(tmp_path, [Entity("D9", "gout", other_ids=("O9", "O1"))], Letters())
    assert meant(tmp_path) == {"O1": "D1", "O2": "D2", "O9": "D9"}
    remove_entities(tmp_path, ["D2"])
    assert meant(tmp_path) == {"O1": "D1", "O2": None, "O9": "D9"}


def meant(folder: Path) -> dict[str, str | None]:
    entity_of = entity_of_id(open_index(folder).entities)
    return {id_: entity_of(id_) for id_ in ("O1", "O2", "O9")}


@pytest.mark.parametrize("other_ids", [{"O1": "D1", "O2": "D2"}, None])
def test_an_index_whose_entities_hold_no_other_ids_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other_ids: dict[str, str] | None
) -> None:
    write_table = index_files._write_table

    def older(table: pa.Table, path: Path) -> None:
        is_old = path.name == "entities.arrow"
        write_table(table.drop_columns("other_ids") if is_old else table, path)
        if is_old and other_ids is not None:
            (path.parent / "other_ids.json").write_text(json.dumps(other_ids))

    with monkeypatch.context() as patched:
        patched.setattr(index_files, "_write_table", older)
        write_index(built(), tmp_path)
    found = {"O1": "D1", "O2": "D2"} if other_ids else {"O1": None, "O2": None}
    assert meant(tmp_path) == {**found, "O9": None}
    add_entities(tmp_path, [Entity("D9", "gout", other_ids=("O9",))], Letters())
    assert meant(tmp_path) == {**found, "O9": "D9"}
    assert not (tmp_path / "000002" / "other_ids.json").exists()


def test_few_versions_stay(tmp_path: Path) -> None:
    for _ in range(4):
        write_index(built(), tmp_path)
    assert versions(tmp_path) == ["000003", "000004"]
    assert len(versions(tmp_path)) == KEPT


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda path: remove_entities(path, ["D1", "X1", "X2"]), "entity X1, X2: not in the index"),
        (lambda path: remove_entities(path, [e.entity_id for e in ENTITIES]), "no entity would be left"),
        (lambda path: add_entities(path, [ENTITIES[0], Entity("D9", "x")], Letters()), "D1: the index has"),
        (lambda path: add_entities(path, [Entity("D9", "x"), Entity("D9", "y")], Letters()), "occurs twice"),
        (lambda path: add_entities(path, [Entity("D9", "x")], Letters(8)), "8 dimensions, the index has 32"),
        (lambda path: add_entities(path, [], Letters()), "no entity"),
    ],
)
def test_changes_that_are_refused_change_nothing(tmp_path: Path, change, what) -> None:
    write_index(built(), tmp_path)
    with pytest.raises(KnowledgeBaseError, match=what):
        change(tmp_path)
    assert versions(tmp_path) == ["000001"]
    assert answers(open_index(tmp_path)) == answers(built())


def test_two_writers_at_once(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    encoding, go = threading.Event(), threading.Event()

    def encode(texts):
        encoding.set()
        assert go.wait(300)
        return Letters()(texts)

    first = threading.Thread(target=add_entities, args=(tmp_path, [Entity("D9", "x")], encode))
    first.start()
    assert encoding.wait(300)
    for write in (
        lambda: remove_entities(tmp_path, ["D1"]),
        lambda: add_entities(tmp_path, [Entity("D8", "y")], Letters()),
        lambda: write_index(built(), tmp_path),
    ):
        with pytest.raises(InputError, match=r"another process \(.*\) writes this index"):
            write()
    assert len(open_index(tmp_path).entities) == len(ENTITIES)
    go.set()
    first.join()
    assert [e.entity_id for e in open_index(tmp_path).entities][-1] == "D9"
    remove_entities(tmp_path, ["D9"])


def test_readers_see_whole_versions_while_writers_go_on(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    seen: list[tuple[int, int]] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                index = open_index(tmp_path)
                assert answers(index)[0][0].entity_id == "D2"
                seen.append((index.version, len(index.entities)))
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()

    def seen_enough() -> bool:
        remove_entities(tmp_path, ["D1"])
        add_entities(tmp_path, ENTITIES[:1], Letters())
        return bool(errors) or len({version for version, _ in list(seen)}) > 5

    try:
        wait_for(seen_enough)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert not errors
    # The odd versions have all entities, the even ones one fewer.
    assert all(entities == len(ENTITIES) - 1 + version % 2 for version, entities in seen)


def test_an_open_index_outlives_its_version(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    opened, before = open_index(tmp_path), answers(built())
    for _ in range(3):
        write_index(built(ENTITIES[:2]), tmp_path)
    assert "000001" not in versions(tmp_path)
    assert answers(opened) == before


def test_folders_of_a_user_that_are_named_by_dates_stay(tmp_path: Path) -> None:
    for name in ("20240101", "20240102", "20240103", ".mine.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("mine")
    with pytest.raises(IndexFolderError, match="and no index; name another folder"):
        write_index(built(), tmp_path)
    (tmp_path / "index").mkdir()
    for name in ("20240101", ".mine.old"):
        (tmp_path / name).rename(tmp_path / "index" / name)
    (tmp_path / "index/20240101").rename(tmp_path / "apart")
    for _ in range(KEPT + 1):
        write_index(built(), tmp_path / "index")
    (tmp_path / "apart").rename(tmp_path / "index/20240101")
    assert write_index(built(), tmp_path / "index") == 20240102
    write_index(built(), tmp_path / "index")
    write_index(built(), tmp_path / "index")
    assert versions(tmp_path / "index") == [".mine.old", "20240101", "20240103", "20240104"]


@pytest.mark.parametrize("step", ["write_files", "flush_folder", "rename"])
def test_killed_between_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    write_index(built(), tmp_path)

    def die(*_args, **_keywords):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "rename":
            patch.setattr(Path, "rename", die)
        elif step == "write_files":
            whole = index_folder.write_files

            def half(index, folder, origin):
                whole(index, folder, origin)
                (folder / "vectors.npy").write_bytes(b"half")
                die()

            patch.setattr(index_folder, "write_files", half)
        else:
            patch.setattr(folders, step, die)
        with pytest.raises(KeyboardInterrupt):
            remove_entities(tmp_path, ["D1"])
    assert answers(open_index(tmp_path)) == answers(built())
    assert remove_entities(tmp_path, ["D1"]).version == 2
    assert versions(tmp_path) == ["000001", "000002"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), None])
def test_a_full_disk_leaves_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    write_index(built(), tmp_path)

    def full(*_args):
        if error is not None:
            raise error
        # NumPy's own error, which has no number.
        np.zeros(9999).tofile("/dev/full")

    monkeypatch.setattr(index_folder, "write_files", full)
    with pytest.raises(InputError, match=r"no room to write it.*unharmed"):
        remove_entities(tmp_path, ["D1"])
    assert versions(tmp_path) == ["000001"]


@pytest.mark.parametrize(
    "name",
    [
        "entities.arrow",
        "vectors.npy",
        "vectors-bfloat16.npy",
        "postings-data.npy",
        "approximate.faiss",
        "index.json",
    ],
)
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_damage_is_found(tmp_path: Path, name: str, damage: str) -> None:
    write_index(built(search="ivf"), tmp_path)
    path = tmp_path / "000001" / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:-9] + b"?" + content[-8:])
    what = {"missing": "is missing", "cut": "is cut short", "changed": "not the file"}[damage]
    with pytest.raises(IndexFolderError, match=rf"{name}: .*{what}"):
        open_index(tmp_path)


def test_folders_that_hold_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="no such folder"):
        open_index(tmp_path / "none")
    long = tmp_path / ("x" * 256)
    for do in (open_index, version_of_index, check_target):
        with pytest.raises(InputError, match=r"x{256}: File name too long; correct the path$"):
            do(long)
    with pytest.raises(IndexFolderError, match="holds no index"):
        remove_entities(tmp_path, ["D1"])
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(IndexFolderError, match=r"holds 'thesis.txt' and no index"):
        write_index(built(), tmp_path)
    with pytest.raises(IndexFolderError, match="is a file"):
        write_index(built(), tmp_path / "thesis.txt")
    with pytest.raises(IndexFolderError, match=r"thesis\.txt is a file"):
        check_target(tmp_path / "thesis.txt" / "index")
    with pytest.raises(InputError, match="cannot be written"):
        write_index(built(), Path("/proc/none/index"))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_written_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_folder.os, "access", lambda *_: False)
    with pytest.raises(IndexFolderError) as found:
        check_target(tmp_path)
    assert str(found.value) == f"{tmp_path}: cannot be written; name a folder that can be written"
    with pytest.raises(IndexFolderError, match=f"{tmp_path}/new: {tmp_path} cannot be written;"):
        check_target(tmp_path / "new")


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_index(built(), tmp_path)
    path = tmp_path / "000001" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"format": 99}), "utf-8")
    with pytest.raises(IndexFolderError, match="format 99 is unknown"):
        open_index(tmp_path)


def test_one_entity(tmp_path: Path) -> None:
    write_index(built(ENTITIES[:1], search="ivf"), tmp_path)
    assert [f.entity_id for f in answers(open_index(tmp_path))[0]] == ["D1"]
