from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.errors import CorpusError, InputError, RaynerError
from rayner.runtime.annotation import execution
from tests.runtime.annotation.annotate_model import CAPITALIZED, Capitals, FindsCapitals
from tests.runtime.annotation.annotate_texts import (
    TEXT,
    TEXTS,
    here,
    rejects,
    rows,
    write_jsonl,
    write_parquet,
    write_texts,
)

FORMS: dict[str, Callable[[Path], Path]] = {
    "jsonl": lambda folder: write_jsonl(folder / "in.jsonl", TEXTS),
    "jsonl.gz": lambda folder: write_jsonl(folder / "in.jsonl.gz", TEXTS),
    "parquet": lambda folder: write_parquet(folder / "in.parquet", TEXTS),
    "row groups": lambda folder: write_parquet(folder / "in.parquet", TEXTS, row_group_size=7),
    "texts": lambda folder: write_texts(folder / "in", TEXTS),
    "packed texts": lambda folder: write_texts(folder / "in", TEXTS, packed=True),
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


def test_what_brat_has_no_place_for_is_counted_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class FindsCities(FindsCapitals):
        def finish(self, *given: Any) -> Document:
            found = super().finish(*given)
            return replace(found, mentions=tuple(replace(m, type="Big City") for m in found.mentions))

    class Cities(Capitals):
        def load(self, device: str | None) -> Any:
            return FindsCities()

    given, told = tmp_path / "in", "lost, as brat has no place for it: score (%d), white space in a type (%d)"
    given.mkdir()
    for name, text, mentions in (("a", "Ada ran", 1), ("b", "Bob met Eve", 3)):
        write_jsonl(given / f"{name}.jsonl", [text], name)
        caplog.clear()
        counts = here(given, tmp_path / "out", also=("brat",), model=Cities())
        assert counts["lost"] == {"score": mentions, "white space in a type": mentions}
        assert told % (mentions, mentions) in caplog.text
    caplog.clear()
    assert "lost" not in here(given, tmp_path / "parquet", model=Cities())
    assert "lost" not in caplog.text


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
        "a.jsonl:7": "not a JSON object",
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


def test_what_annotate_wrote_is_no_input_but_its_json_lines_are(tmp_path: Path) -> None:
    given, out = write_jsonl(tmp_path / "good.jsonl", TEXTS[:1]), tmp_path / "out"
    here([given], out, also=("jsonl",))
    with pytest.raises(InputError, match=r"no column `text` .*; `rayner annotate --jsonl` .* _jsonl"):
        here([out], tmp_path / "again")
    assert here([out / "_jsonl"], tmp_path / "again")["documents"] == 1


def test_what_is_not_utf_8_is_told_how_to_convert(tmp_path: Path) -> None:
    given = [write_jsonl(tmp_path / "good.jsonl", TEXTS[:1])]
    for encoding in ("latin1", "utf-16"):
        given.append(tmp_path / f"{encoding}.jsonl")
        given[-1].write_bytes('{"text": "é"}\n'.encode(encoding))
    here(given, tmp_path / "out")
    hints = {Path(row["where"]).name: row["hint"] for row in rejects(tmp_path / "out")}
    assert hints["latin1.jsonl:1"] == "convert it to UTF-8, for example with iconv -f latin1 -t utf-8"
    assert hints["utf-16.jsonl:1"] == "convert it: iconv -f utf-16 -t utf-8"


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


def test_dropping_what_comes_twice_can_be_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_jsonl(tmp_path / "a.jsonl", TEXTS)
    again = write_jsonl(tmp_path / "b.jsonl", ["Else " + text for text in TEXTS[:20]])

    def stop() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr("rayner.runtime.annotation.duplicates.pa.BufferOutputStream", stop)
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


def test_work_that_was_left_at_the_very_end_is_removed(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)
    counts = here(given, tmp_path / "out")
    (tmp_path / "out/.work/blocks").mkdir(parents=True)
    assert here(given, tmp_path / "out") == counts
    assert not (tmp_path / "out/.work").exists()


def test_an_interrupted_run_goes_on_and_ends_as_an_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut short after each number of blocks in turn, down to the last one."""
    given = [write_jsonl(tmp_path / f"{n}.jsonl", [t * 60 for t in TEXTS], n) for n in "ab"]
    here(given, tmp_path / "whole")
    done: list[str] = []

    class Stops(execution.BlockAnnotator):
        def __call__(self, name: str, block: Any) -> Any:
            if len(done) % 3 == 2:
                done.append("stopped")
                raise KeyboardInterrupt
            done.append(name)
            return super().__call__(name, block)

    monkeypatch.setattr("rayner.runtime.annotation.annotate.BlockAnnotator", Stops)
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
            forward, lost = predictor.forward, set[Path]()

            def forward_and_lose(windows: Any) -> Any:
                for path in {*out.glob("documents-*.parquet")} - lost:
                    pq.write_table(pq.read_table(path).slice(1), path)
                    lost.add(path)
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
