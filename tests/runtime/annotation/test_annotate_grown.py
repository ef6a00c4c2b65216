"""Files that are added to an input after its annotation was begun or finished: they alone are annotated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayner.errors import InputError
from rayner.files.places import Place
from rayner.runtime.annotation import execution
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import TEXTS, here, rejects, rows, write_jsonl

LONG = [text * 4 for text in TEXTS[:30]]
pytestmark = pytest.mark.usefixtures("small_blocks")
TIMED = ("startup_seconds", "seconds", "words_per_second", "first_reject", "workers")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and first rows of the blocks that are annotated, in order."""
    blocks: list[str] = []

    class Notes(execution.BlockAnnotator):
        def __call__(self, name: str, block: Any) -> Any:
            blocks.append(block.where)
            return super().__call__(name, block)

    monkeypatch.setattr("rayner.runtime.annotation.annotate.BlockAnnotator", Notes)
    return blocks


def begin(folder: Path) -> None:
    """Two files with a document that cannot be read, one that is there twice, and one without an id."""
    (folder / "sub").mkdir(parents=True)
    write_jsonl(folder / "m.jsonl", LONG, "m")
    extra = ["{", json.dumps({"document_id": "m3", "text": "Twice"}), json.dumps({"text": "Nameless"})]
    (folder / "sub" / "t.jsonl").write_text("\n".join(extra))


def grow(folder: Path) -> None:
    """Files before and after those, with the same faults, and one of the same name."""
    write_jsonl(folder / "a.jsonl", LONG[:18], "a")
    extra = ["{", json.dumps({"document_id": "m4", "text": "Twice"}), json.dumps({"text": "Nameless"})]
    (folder / "t.jsonl").write_text("\n".join(extra))
    (folder / "x.txt").write_text("A text of its own in London.")


def counted(counts: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in counts.items() if k not in TIMED}


def test_only_new_files_are_annotated(tmp_path: Path, done: list[str]) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    begin(folder)
    first = here(folder, out, also=("jsonl",))
    assert (first["documents"], first["rejected"], first["duplicates"]) == (31, 2, 1)
    files = {path: path.read_bytes() for path in out.glob("documents-*")}
    of_first = rejects(out)
    done.clear()
    grow(folder)
    counts = here(folder, out, also=("jsonl",))
    assert {Path(where.partition(":")[0]).name for where in done} == {"a.jsonl", "t.jsonl", "x.txt"}
    assert not any("/sub/" in where for where in done)
    assert all(path.read_bytes() == data for path, data in files.items())
    assert (counts["documents"], counts["rejected"], counts["duplicates"]) == (31 + 18 + 2, 4, 2)
    assert rejects(out)[:2] == of_first
    assert len({row["document_id"] for row in rows(out)}) == 51
    assert counts["first_reject"] == first["first_reject"]
    done.clear()
    assert here(folder, out, also=("jsonl",)) == counts
    assert not done
    fresh = here(folder, tmp_path / "fresh", also=("jsonl",))
    assert counted(fresh) == counted(counts)
    assert not (out / ".work").exists()


def test_files_are_added_again_and_again(tmp_path: Path, done: list[str]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate("dbca"):
        write_jsonl(folder / f"{name}.jsonl", TEXTS[:10], name)
        done.clear()
        counts = here(folder, tmp_path / "out")
        assert counts["documents"] == (number + 1) * 10
        assert done == [f"{folder}/{name}.jsonl:1"]
    assert counts["mentions"] == sum(len(row["mentions"]) for row in rows(tmp_path / "out"))


@pytest.mark.parametrize("after", range(1, 12))
def test_an_interrupted_annotation_whose_input_grew_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Cut short after so many blocks, before and after the input grew."""
    folder, out, done = tmp_path / "in", tmp_path / "out", []

    class Stops(execution.BlockAnnotator):
        def __call__(self, name: str, block: Any) -> Any:
            if len(done) % (after + 1) == after:
                done.append("stopped")
                raise KeyboardInterrupt
            done.append(block.where)
            return super().__call__(name, block)

    begin(folder)
    for step in range(40):
        if step == 1:
            grow(folder)
        try:
            with monkeypatch.context() as patch:
                patch.setattr("rayner.runtime.annotation.annotate.BlockAnnotator", Stops)
                counts = here(folder, out)
        except KeyboardInterrupt:
            continue
        if step:
            break
    blocks = [where for where in done if where != "stopped"]
    assert len(set(blocks)) == len(blocks), "a block was done twice"
    assert counts["documents"] == 51
    assert len({row["document_id"] for row in rows(out)}) == 51
    assert counted(counts) == counted(here(folder, tmp_path / "fresh"))


@pytest.mark.parametrize("cut", ["begin", "end"])
def test_a_continuation_that_is_killed_over_its_notes_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Killed before each of the writes in turn with which it begins, or ends."""
    folder, out = tmp_path / "in", tmp_path / "out"
    begin(folder)
    here(folder, out)
    grow(folder)
    write, delete = Place.write, Place.delete
    for stop in range(1, 99):
        count = 0

        def counting(call: Callable[..., None], stop: int = stop) -> Callable[..., None]:
            def counted_call(place: Place, *given: Any) -> None:
                nonlocal count
                watched = "/.work/blocks" in place.path or count or cut == "begin"
                count += bool(watched)
                if count == stop:
                    raise KeyboardInterrupt
                call(place, *given)

            return counted_call

        with monkeypatch.context() as patch:
            patch.setattr(Place, "write", counting(write))
            patch.setattr(Place, "delete", counting(delete))
            try:
                counts = here(folder, out)
                break
            except KeyboardInterrupt:
                pass
    assert counts["documents"] == len(rows(out)) == 51
    assert counts["rejected"] == len(rejects(out)) == 4
    assert here(folder, out) == counts


def test_the_input_of_an_annotation_that_is_killed_at_its_very_end_may_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out, write, written = tmp_path / "in", tmp_path / "out", Place.write, []

    def killed(place: Place, data: bytes) -> None:
        if place.path.endswith(("_inputs.arrow", "_annotation.json")):
            if written:
                raise KeyboardInterrupt
            written.append(place)
        write(place, data)

    begin(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Place, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            here(folder, out)
    here(folder, out)
    grow(folder)
    assert here(folder, out)["documents"] == 51


def test_what_changed_beside_new_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    begin(folder)
    here(folder, tmp_path / "out")
    before = (tmp_path / "out" / "_annotation.json").read_bytes()
    grow(folder)
    with pytest.raises(InputError, match="another model"):
        here(folder, tmp_path / "out", model=Capitals("capitals-2"))
    content = (folder / "m.jsonl").read_text()
    (folder / "m.jsonl").write_text(content + "\n")
    with pytest.raises(InputError, match=r"another input; .* keep the files that were read, with"):
        here(folder, tmp_path / "out")
    (folder / "m.jsonl").unlink()
    with pytest.raises(InputError, match="another input"):
        here(folder, tmp_path / "out")
    assert (tmp_path / "out" / "_annotation.json").read_bytes() == before


def test_a_new_file_does_not_take_the_name_of_an_old_one(tmp_path: Path) -> None:
    """Documents without an id are named after their file: its stem, where that is unique."""
    (tmp_path / "in" / "b").mkdir(parents=True)
    (tmp_path / "in" / "b" / "x.jsonl").write_text('{"text": "Ada"}\n')
    here(tmp_path / "in", tmp_path / "out")
    (tmp_path / "in" / "x.jsonl").write_text('{"text": "Charles"}\n')
    counts = here(tmp_path / "in", tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (2, 0)


def nameless(folder: Path, *names: str) -> None:
    """Files of rows without ids: a text that says the file's name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name.endswith(".parquet"):
            ids = pa.nulls(2, pa.string())
            pq.write_table(pa.table({"document_id": ids, "text": ["Of", name]}), folder / name)
        else:
            (folder / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in (name, "Of")))


def ids(out: Path) -> list[str]:
    return [row["document_id"] for row in rows(out)]


def test_files_of_rows_have_names_of_their_own_whatever_their_format(tmp_path: Path) -> None:
    nameless(tmp_path / "in", "x.jsonl", "x.parquet")
    (tmp_path / "in/x.txt").write_text("Ada")
    here(tmp_path / "in", tmp_path / "out")
    assert ids(tmp_path / "out") == ["x", "x.jsonl:1", "x.jsonl:2", "x.parquet:0", "x.parquet:1"]
    nameless(tmp_path / "in", "y.jsonl")
    (tmp_path / "in/x.parquet").rename(tmp_path / "in/z.parquet")
    here(tmp_path / "in", tmp_path / "apart")
    assert ids(tmp_path / "apart") == ["x", "x:1", "x:2", "y:1", "y:2", "z:0", "z:1"]


def test_a_new_file_of_another_format_does_not_take_the_name_of_an_old_one(tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    nameless(folder / "b", "x.jsonl")
    here(folder, out)
    nameless(folder, "x.parquet")
    counts = here(folder, out)
    assert (counts["documents"], counts["rejected"]) == (4, 0)
    assert ids(out)[2:] == ["x:1", "x:2"]
    nameless(folder / "b", "x.parquet")
    assert here(folder, out)["rejected"] == 0
    assert {"x:1", "x:2", "b/x.parquet:0", "b/x.parquet:1"} < set(ids(out))


def test_inputs_in_another_order_are_the_same(tmp_path: Path, done: list[str]) -> None:
    given = [write_jsonl(tmp_path / f"{n}.jsonl", TEXTS, n) for n in "ab"]
    counts = here(given, tmp_path / "out")
    done.clear()
    assert here(given[::-1], tmp_path / "out") == counts
    assert not done
