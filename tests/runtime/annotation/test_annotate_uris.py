"""Annotation of what lies in object storage, over HTTP, into object storage."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import obstore
import pyarrow.parquet as pq
import pytest

from rayner.errors import CorpusError, InputError, RaynerError
from rayner.files.fetching import local
from rayner.files.places import place_of
from rayner.files.publishing import Publication, TakenOverError
from rayner.runtime.annotation import annotate as module
from rayner.runtime.annotation.annotate import annotate
from tests.object_storage import BUCKET, Storage
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import TEXTS, write_jsonl

FOLDER = "annotation"
HOME = f"s3://{BUCKET}/{FOLDER}"


def uploaded(storage: Storage, tmp_path: Path, name: str, files: int = 1) -> str:
    for number in range(files):
        path = write_jsonl(tmp_path / f"{number}.jsonl", TEXTS, f"{number}-")
        obstore.put(storage.store(), f"{FOLDER}/{name}/{number}.jsonl", path)
    return f"{HOME}/{name}"


def documents(out: str) -> list[str]:
    place = place_of(out)
    found = [info.path for info in place.files() if info.base_name.startswith("documents-")]
    tables = [pq.read_table(path, filesystem=place.filesystem) for path in found]
    return sorted(id_ for table in tables for id_ in table["document_id"].to_pylist())


def run(given: str, out: str, model: Any = None) -> dict[str, Any]:
    return annotate(model or Capitals(), [given], out, workers=0)


def test_passing_faults_lose_nothing(storage: Storage, tmp_path: Path) -> None:
    given, out = uploaded(storage, tmp_path, "faults/in", 2), f"{HOME}/faults/out"
    failed = storage.fails("broken", 2, "GET", ".jsonl")
    assert run(given, out)["documents"] == 2 * len(TEXTS)
    assert failed
    assert len(documents(out)) == 2 * len(TEXTS)
    storage.seen.clear()
    assert run(given, out)["documents"] == 2 * len(TEXTS)
    assert not [path for method, path in storage.seen if method == "PUT" and "documents" in path]


def test_storage_that_stays_away_is_no_reject_and_is_gone_on_with(storage: Storage, tmp_path: Path) -> None:
    given, out = uploaded(storage, tmp_path, "away/in"), f"{HOME}/away/out"

    class Cut(Capitals):
        def load(self, device: str | None) -> Any:
            storage.fault = lambda method, path: "503" if method == "PUT" else None
            return super().load(device)

    with pytest.raises((RaynerError, OSError)):
        run(given, out, Cut())
    storage.works()
    assert documents(out) == []
    result = run(given, out)
    assert (result["documents"], result["rejected"]) == (len(TEXTS), 0)


def test_of_two_runs_the_later_one_goes_on(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, out = uploaded(storage, tmp_path, "two/in"), f"{HOME}/two/out"
    monkeypatch.setattr(module, "SECONDS_BETWEEN_CHECKS", 0.0)

    class RunsAnother(Capitals):
        def load(self, device: str | None) -> Any:
            with monkeypatch.context() as patch:
                patch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
                Publication(f"{out}/_writer").open()
            return super().load(device)

    with pytest.raises(TakenOverError, match="is written by another process"):
        run(given, out, RunsAnother())
    assert not [key for key in storage.objects(f"{FOLDER}/two/out/") if key.endswith("_annotation.json")]
    assert run(given, out)["documents"] == len(TEXTS)
    assert len(documents(out)) == len(TEXTS)


def test_a_run_that_was_taken_over_writes_over_no_answer_of_the_other(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, out = uploaded(storage, tmp_path, "over/in"), f"{HOME}/over/out"

    class MeanwhileAnother(Capitals):
        def load(self, device: str | None) -> Any:
            predictor = super().load(device)
            with monkeypatch.context() as patch:
                patch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
                other = Capitals(version="capitals-2")
                annotate(other, [given], out, workers=0, fresh=True)
            return predictor

    with pytest.raises(TakenOverError, match="is written by another process"):
        run(given, out, MeanwhileAnother())
    place = place_of(out)
    found = [info.path for info in place.files() if info.base_name.startswith("documents-")]
    tables = [pq.read_table(path, filesystem=place.filesystem) for path in found]
    assert {v for table in tables for v in table["model_version"].to_pylist()} == {"capitals-2"}


def test_a_bucket_that_is_missing(storage: Storage, tmp_path: Path) -> None:
    given = uploaded(storage, tmp_path, "missing/in")
    with pytest.raises(InputError, match="there is no such bucket"):
        run(given, "s3://nowhere/out")


def test_files_below_a_folder_that_was_put_in_place_are_read_too(storage: Storage, tmp_path: Path) -> None:
    publication = Publication(f"{HOME}/below")
    publication.open()
    write_jsonl(publication.folder / "0.jsonl", TEXTS[:1], "0-")
    publication.push()
    given = uploaded(storage, tmp_path, "below/own")
    assert run(given, f"{HOME}/below-out")["documents"] == len(TEXTS)
    assert len(list(local(given).iterdir())) == 1
    with pytest.raises(CorpusError, match="no such file or folder"):
        run(f"{HOME}/below/nothing", f"{HOME}/below-other")


def test_a_corpus_that_was_put_in_place_is_read_by_its_names(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files lie under other names, and `corpus convert` leaves counts beside the documents."""
    corpus, out = f"{HOME}/published/in", f"{HOME}/published/out"
    publication = Publication(corpus)
    publication.open()
    write_jsonl(publication.folder / "0.jsonl", TEXTS, "0-")
    (publication.folder / "counts.json").write_text('{\n "documents": 1\n}\n')
    publication.push()
    assert (run(corpus, out)["documents"], run(corpus, out)["rejected"]) == (len(TEXTS), 0)
    # Put in place again, what is the same is known, and what is new is added.
    write_jsonl(publication.folder / "1.jsonl", TEXTS, "1-")
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    publication.push()
    storage.seen.clear()
    assert run(corpus, out)["documents"] == 2 * len(TEXTS)
    read = {path for method, path in storage.seen if method == "GET" and path.endswith(".jsonl")}
    assert [path.rpartition("-")[2] for path in read] == ["1.jsonl"]
    one = run(f"{corpus}/1.jsonl", f"{out}-one")
    assert (one["documents"], one["rejected"]) == (len(TEXTS), 0)


def test_a_uri_with_an_empty_part_is_refused_at_once(
    storage: Storage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = write_jsonl(tmp_path / "0.jsonl", TEXTS, "0-").read_bytes()
    # A bucket of its own: that of all tests could be listed no more.
    for path, body in (("strange", None), ("strange/empty//0.jsonl", content)):
        urlopen(Request(f"{storage.url}/{path}", body, method="PUT"), timeout=10).close()
    for given in ("s3://strange/empty//0.jsonl", "s3://strange/empty"):
        with pytest.raises(InputError, match=r"empty//0.jsonl: .*empty"):
            annotate(Capitals(), [given], tmp_path / "out", workers=0)
    assert "try" not in caplog.text
