"""What keeps a file from being read is no document's fault; what cannot be decoded is."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rayner.data.readers import read_corpus
from rayner.errors import RaynerError
from rayner.runtime import faults
from rayner.runtime.annotation import missing_blocks
from rayner.runtime.annotation.annotate import annotate
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import (
    TEXTS,
    here,
    rejects,
    rows,
    write_jsonl,
    write_parquet,
    write_texts,
)
from tests.runtime.annotation.flaky_files import failing

pytestmark = pytest.mark.usefixtures("small_blocks")
LONG = [f"{i} {text}" * 4 for i, text in enumerate(TEXTS[::2])]
FORMS: dict[str, Callable[[Path], Path]] = {
    "jsonl": lambda folder: write_jsonl(folder / "in.jsonl", LONG),
    "jsonl.gz": lambda folder: write_jsonl(
        folder / "in.jsonl.gz", [t + f"{i * 7919}" * 9 for i, t in enumerate(LONG)]
    ),
    "parquet": lambda folder: write_parquet(folder / "in.parquet", LONG, row_group_size=7),
    "texts": lambda folder: write_texts(folder / "in", LONG),
}
FAULTS = {
    "EIO": lambda: OSError(errno.EIO, "Input/output error"),
    "a store's 503": lambda: OSError("When reading key 'a': AWS Error SLOW_DOWN during GetObject"),
    "memory": lambda: MemoryError("malloc of size 16777216 failed"),
    "another library's": lambda: RuntimeError("the connection was reset"),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "PAUSE", 0.0)


def flaky(given: Path, out: Path, **options: Any) -> dict[str, Any]:
    return annotate(Capitals(), [f"flaky://{given}"], out, workers=0, **options)


def answers(out: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "source"} for row in rows(out)]


def named(out: Path) -> list[str]:
    return sorted(path.name for path in out.glob("*.parquet"))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Of each form, what its annotation is where all reads go well, made once."""

    @cache
    def made(form: str) -> Path:
        folder = tmp_path_factory.mktemp("undisturbed")
        here(FORMS[form](folder), folder / "out")
        return folder / "out"

    return made


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", FORMS)
def test_reads_that_fail_for_a_while_change_nothing(
    tmp_path: Path, undisturbed: Callable[[str], Path], form: str, fault: str
) -> None:
    given = FORMS[form](tmp_path)
    middle = given.stat().st_size // 2 if given.is_file() else 0
    with failing(middle, *(FAULTS[fault]() for _ in range(2))) as left:
        counts = flaky(given, tmp_path / "out")
        assert not left
    assert (counts["documents"], counts["rejected"]) == (len(LONG), 0)
    assert answers(tmp_path / "out") == answers(undisturbed(form))
    assert named(tmp_path / "out") == named(undisturbed(form))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", FORMS)
def test_reads_that_go_on_failing_fail_the_run_and_lose_nothing(
    tmp_path: Path, undisturbed: Callable[[str], Path], form: str, fault: str
) -> None:
    given = FORMS[form](tmp_path)
    middle = given.stat().st_size // 2 if given.is_file() else 0
    with failing(middle, *(FAULTS[fault]() for _ in range(99))) as left:
        with pytest.raises(RaynerError, match=r"/in[^:]*: cannot be read"):
            flaky(given, tmp_path / "out")
        assert len(left) >= 99 - 2 * faults.TRIES
    counts = flaky(given, tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (len(LONG), 0)
    assert answers(tmp_path / "out") == answers(undisturbed(form))


def test_blocks_that_were_given_before_a_fault_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_at = iter([1, 3, 3, 99])

    def failing_reads(shard: Any, block_bytes: int) -> Iterator[int]:
        stop = next(fails_at)
        for number in range(6):
            if number == stop:
                raise faults.ReadFault("in.jsonl: cannot be read")
            yield number

    monkeypatch.setattr(missing_blocks, "read_blocks", failing_reads)
    assert list(missing_blocks._patiently((), 1)) == list(range(6))
    assert next(fails_at, None) is None


def test_a_file_that_vanished_after_it_was_listed_fails_the_run(tmp_path: Path) -> None:
    given = [write_jsonl(tmp_path / f"{n}.jsonl", LONG, n) for n in "ab"]

    class Removes(Capitals):
        def load(self, device: str | None) -> Any:
            given[1].unlink()
            return super().load(device)

    with pytest.raises(RaynerError, match=r"b\.jsonl: cannot be read \(.*[Nn]o such file"):
        here(given, tmp_path / "out", model=Removes())


def test_a_damaged_page_is_a_reject(tmp_path: Path) -> None:
    """Arrow raises a plain `OSError` for it, as for what an object store cannot deliver."""
    given = write_parquet(tmp_path / "in.parquet", LONG, row_group_size=10, use_dictionary=False)
    header = pq.read_metadata(given).row_group(2).column(1).data_page_offset
    data = bytearray(given.read_bytes())
    data[header : header + 40] = bytes(40)
    given.write_bytes(data)
    for annotate_it, out in ((here, tmp_path / "here"), (flaky, tmp_path / "flaky")):
        counts = annotate_it(given, out)
        assert 0 < counts["documents"] <= 20
        assert counts["rejected"] == 1
        assert "not a Parquet file that can be read" in rejects(out)[0]["what"]


def test_a_text_that_is_not_utf8_is_a_reject(tmp_path: Path) -> None:
    """Arrow reads it without a word."""
    given = write_parquet(
        tmp_path / "in.parquet", ["Ada ran", "Bob sat"], use_dictionary=False, compression="none"
    )
    given.write_bytes(given.read_bytes().replace(b"Bob sat", b"Bob\xffsat"))
    counts = here(given, tmp_path / "out")
    assert (counts["documents"], counts["rejected"]) == (1, 1)
    (reject,) = rejects(tmp_path / "out")
    assert reject["what"] == "byte 0xff is not UTF-8"
    assert reject["where"].endswith("in.parquet:row 1")


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_end_as_other_commands_have_it(tmp_path: Path, end: str) -> None:
    given = tmp_path / "in.jsonl"
    lines = ['{"text": "Ada"}', "", "{", '{"text": "Bob \u2028"}', '{"text": "Cid"}', ""]
    given.write_text(end.join(lines), "utf-8", newline="")
    here(given, tmp_path / "out")
    expected = read_corpus(given)
    assert [(row["document_id"], row["source"]) for row in rows(tmp_path / "out")] == [
        (document.document_id, place)
        for document, place in zip(expected.documents, expected.places, strict=True)
    ]
    assert [reject["where"] for reject in rejects(tmp_path / "out")] == [f"{given}:3"]


def test_a_carriage_return_within_a_line_is_white_space(tmp_path: Path) -> None:
    given = tmp_path / "in.jsonl"
    given.write_bytes(b'{"text":\r"Ada"}\n{"text":\r"Bob"}')
    assert here(given, tmp_path / "out")["documents"] == 2
