"""The folder that an annotation finds: one of its own, whole, killed or damaged, or somebody else's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rayner.errors import CorpusError, InputError, RaynerError
from rayner.files.places import Place
from rayner.runtime.annotation import execution
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import TEXTS, here, rejects, rows, write_jsonl

pytestmark = pytest.mark.usefixtures("small_blocks")
ALSO = ("jsonl", "brat")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Some blocks of texts, with a line that is rejected."""
    path = write_jsonl(tmp_path / "in.jsonl", [text * 3 for text in TEXTS])
    path.write_text(path.read_text() + "{\n")
    return path


def content(out: Path) -> dict[str, Any]:
    """All that an annotation left, less how long it took."""
    found: dict[str, Any] = {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }
    summary = json.loads(found.pop("_annotation.json"))
    return found | {key: summary[key] for key in ("documents", "rejected", "mentions", "settings", "parts")}


def killed_at(monkeypatch: pytest.MonkeyPatch, stop: int, run: Callable[[], Any]) -> bool:
    """Whether the run was killed before it deleted so many files and folders."""
    delete, count = Place.delete, 0

    def counted(place: Place) -> None:
        nonlocal count
        count += 1
        if count == stop:
            raise KeyboardInterrupt
        delete(place)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr(Place, "delete", counted)
        run()
        return False
    return True


@pytest.mark.parametrize("again", [False, True])
def test_a_removal_that_is_killed_begins_anew(
    tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    out = tmp_path / "out"
    # Enough for a few files of each kind: each of them is once the one at which the removal is killed.
    lines = given.read_text().splitlines(keepends=True)
    given.write_text("".join([*lines[:20], lines[-1]]))
    here(given, tmp_path / "old", model=Capitals("old"), also=ALSO)
    here(given, tmp_path / "whole", also=ALSO)
    wanted = content(tmp_path / "whole")
    names = len(list((tmp_path / "old").iterdir()))
    assert len(list((tmp_path / "old").glob("documents-*"))) > 2
    for stop in range(1, names + 1):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(tmp_path / "old", out)
        assert killed_at(monkeypatch, stop, lambda: here(given, out, also=ALSO, fresh=True))
        here(given, out, also=ALSO, fresh=again)
        assert content(out) == wanted


def test_of_work_whose_removal_was_killed_midway_blocks_may_be_left(tmp_path: Path, given: Path) -> None:
    left = tmp_path / "out/.work/blocks/00000-00000.json"
    left.parent.mkdir(parents=True)
    left.write_text("{}")
    (tmp_path / "out/.work/.settings.json.0123456789abcdef.partial").touch()
    assert here(given, tmp_path / "out")["documents"] == len(rows(tmp_path / "out")) == len(TEXTS)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        *(".work/mine.txt", ".work", "_jsonl/mine.jsonl", "_brat/mine.ann", "_rejects.jsonl"),
        *("_annotation.json", "_inputs.arrow"),
    ],
)
def test_files_of_others_stay(tmp_path: Path, given: Path, name: str, fresh: bool) -> None:
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text('{"settings": {"mine": 1}}')
    what = f"holds files that are not from here and would be replaced: {name.partition('/')[0]}; name another"
    with pytest.raises(InputError, match=what):
        here(given, tmp_path / "out", fresh=fresh)
    assert path.exists()


def test_a_run_that_rejected_all_is_done_again(tmp_path: Path, given: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n{}\n")
    for _ in range(2):
        with pytest.raises(CorpusError, match="no field `text`"):
            here(tmp_path / "bad.jsonl", tmp_path / "out")
        assert len(rejects(tmp_path / "out")) == 2
    assert here(given, tmp_path / "out")["documents"] == len(TEXTS)


@pytest.mark.parametrize("cut", [False, True])
def test_a_finished_annotation_of_which_a_part_is_missing_is_refused(
    tmp_path: Path, given: Path, cut: bool
) -> None:
    out = tmp_path / "out"
    counts = here(given, out)
    part = sorted(out.glob("documents-*"))[1]
    whole = part.read_bytes()
    if cut:
        part.write_bytes(whole[:-1])
    else:
        part.unlink()
    with pytest.raises(InputError, match=r"where the annotation that was finished there had .*--fresh"):
        here(given, out)
    part.write_bytes(whole)
    assert here(given, out) == counts
    part.unlink()
    assert here(given, out, fresh=True)["documents"] == len(rows(out))


def test_an_input_does_not_grow_where_a_part_is_missing(tmp_path: Path, given: Path) -> None:
    here(given, tmp_path / "out")
    next((tmp_path / "out").glob("documents-*")).unlink()
    with pytest.raises(InputError, match="put the files back that it had"):
        here([given, write_jsonl(tmp_path / "more.jsonl", TEXTS, "m")], tmp_path / "out")


def cut_short(monkeypatch: pytest.MonkeyPatch, given: Path, out: Path) -> None:
    """Annotate three blocks."""
    done: list[str] = []

    class Stops(execution.BlockAnnotator):
        def __call__(self, name: str, block: Any) -> Any:
            if len(done) == 3:
                raise KeyboardInterrupt
            done.append(name)
            return super().__call__(name, block)

    with monkeypatch.context() as patch:
        patch.setattr("rayner.runtime.annotation.annotate.BlockAnnotator", Stops)
        with pytest.raises(KeyboardInterrupt):
            here(given, out)


@pytest.mark.parametrize("size", [0, None])
@pytest.mark.parametrize(
    "name", [".work/blocks/00000-00001.json", "documents-00000-00001.parquet", ".work/shards/00000.json"]
)
def test_a_block_that_a_power_cut_damaged_is_done_again(
    tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int | None
) -> None:
    out = tmp_path / "out"
    cut_short(monkeypatch, given, out)
    if name.endswith("shards/00000.json"):
        (out / ".work/shards").mkdir(exist_ok=True)
        (out / name).write_text(" " * (size or 0))
    elif size is None:
        (out / name).unlink()
    else:
        (out / name).write_bytes((out / name).read_bytes()[:size])
    counts = here(given, out)
    assert counts["documents"] == len(rows(out)) == len(TEXTS)
    assert (counts["rejected"], len(rejects(out))) == (1, 1)


@pytest.mark.parametrize("name", [".work/blocks/00000-00001.json", "documents-00000-00001.parquet"])
def test_a_block_that_is_cut_off_is_named(
    tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = tmp_path / "out"
    cut_short(monkeypatch, given, out)
    (out / name).write_bytes((out / name).read_bytes()[:20])
    with pytest.raises(RaynerError, match=f"{name}: is damaged, as after a power cut; .* --fresh"):
        here(given, out)


@pytest.mark.parametrize("of_work", [True, False])
def test_what_is_left_before_the_first_documents_begins_anew(
    tmp_path: Path, given: Path, of_work: bool
) -> None:
    out = tmp_path / "out"
    here(given, out, also=ALSO)
    whole = content(out)
    for path in out.glob("documents-*"):
        path.unlink()
    if of_work:
        (out / ".work").mkdir()
        (out / "_inputs.arrow").rename(out / ".work/inputs.arrow")
        (out / ".work/settings.json").touch()
        (out / "_annotation.json").unlink()
    else:
        (out / "_annotation.json").write_bytes(b"")
    here(given, out, also=ALSO)
    assert content(out) == whole


@pytest.mark.parametrize("data", [b"", b"x"])
@pytest.mark.parametrize("name", ["inputs.arrow", "settings.json"])
def test_damaged_notes_of_the_whole_are_one_line(
    tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    out = tmp_path / "out"
    cut_short(monkeypatch, given, out)
    (out / ".work" / name).write_bytes(data)
    for _ in range(2):
        with pytest.raises(InputError, match=r"holds an annotation (of which|that has lost) .*--fresh"):
            here(given, out)
    assert here(given, out, fresh=True)["documents"] == len(rows(out)) == len(TEXTS)


def test_a_damaged_list_of_files_does_not_bind_a_finished_annotation(tmp_path: Path, given: Path) -> None:
    counts = here(given, tmp_path / "out")
    (tmp_path / "out/_inputs.arrow").write_bytes(b"x")
    assert here(given, tmp_path / "out") == counts


def test_a_run_is_resumed_with_other_batches(
    tmp_path: Path, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_short(monkeypatch, given, tmp_path / "out")
    assert here(given, tmp_path / "out", tokens_per_batch=400)["documents"] == len(TEXTS)


def test_options_that_changed_are_named(tmp_path: Path, given: Path) -> None:
    here(given, tmp_path / "out", also=("jsonl",))
    with pytest.raises(InputError, match=r"another set of options \(brat, jsonl\); name"):
        here(given, tmp_path / "out", also=("brat",))
