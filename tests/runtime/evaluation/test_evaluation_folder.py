"""Where an evaluation is written: it replaces an earlier or unfinished one, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import obstore
import pytest

from rayner.errors import InputError
from rayner.files.fetching import local
from rayner.files.locks import LOCK
from rayner.runtime.evaluation import evaluate as evaluation
from rayner.runtime.evaluation.evaluate import evaluate
from tests.files.folders_at_uris import published, uri, write
from tests.object_storage import Storage
from tests.runtime.evaluation.toy_checkpoint import checkpoint_in

PLACE = "evaluation-folder"
RUN = {"recipe.yaml": "task: toy", "best/model.safetensors": "weights", "log.jsonl": "{}"}


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint, and a corpus."""
    path = tmp_path / "corpus.jsonl"
    row: dict[str, Any] = {"text": "one two", "mentions": [{"start": 0, "end": 3, "type": "A"}]}
    path.write_text(json.dumps(row | {"document_id": "d"}) + "\n")
    return checkpoint_in(tmp_path, bias=9.0), path


def test_a_run_at_a_uri_is_refused_and_stays_whole(storage: Storage, given: tuple[Path, Path]) -> None:
    trained = published(f"{PLACE}/run", RUN)

    def stored() -> dict[str, bytes]:
        names = storage.objects(f"{PLACE}/run/")
        return {name: bytes(obstore.get(storage.store(), name).bytes()) for name in names}

    before = stored()
    with pytest.raises(InputError, match=r"--out s3://\S+/run: holds something other than an evaluation"):
        evaluate(*given, out=Path(trained.uri))
    assert stored() == before
    trained.check()


def test_an_evaluation_at_a_uri_is_repeated_on_the_same_machine(
    storage: Storage, given: tuple[Path, Path]
) -> None:
    out = Path(uri(f"{PLACE}/repeated"))
    first = evaluate(*given, out=out, intervals=False)
    assert evaluate(*given, out=out, intervals=False) == first
    assert json.loads((local(out) / "metrics.json").read_text()) == first


def test_an_evaluation_at_a_uri_that_lost_an_object_is_repeated(
    storage: Storage, given: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(uri(f"{PLACE}/lost"))
    evaluate(*given, out=out, intervals=False)
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "other"))
    for name in storage.objects(f"{PLACE}/lost/_objects"):
        obstore.delete(storage.store(), [name])
    found = evaluate(*given, out=out, intervals=False)
    monkeypatch.setenv("RAYNER_LOCAL", str(tmp_path / "third"))
    assert json.loads((local(out) / "metrics.json").read_text()) == found


@pytest.mark.parametrize("at_uri", [False, True])
def test_an_evaluation_that_failed_is_run_again_in_its_folder(
    storage: Storage,
    given: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_uri: bool,
) -> None:
    out = Path(uri(f"{PLACE}/failed")) if at_uri else tmp_path / "out"

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "write_about", fail)
        with pytest.raises(OSError, match="No space"):
            evaluate(*given, out=out, intervals=False)
    found = evaluate(*given, out=out, intervals=False)
    assert json.loads((local(out) / "metrics.json").read_text()) == found


def test_what_a_killed_evaluation_left_is_replaced(given: tuple[Path, Path], tmp_path: Path) -> None:
    left = {f".metrics.json.{'0' * 16}.partial": "{", "evaluation/gold.parquet": "half", "recipe.yaml": "old"}
    write(tmp_path / "out", left | {LOCK: ""})
    evaluate(*given, out=tmp_path / "out", intervals=False)
    assert (tmp_path / "out" / "evaluation.yaml").exists()


def test_no_page_of_an_earlier_evaluation_stays(given: tuple[Path, Path], tmp_path: Path) -> None:
    evaluate(*given, out=tmp_path / "out", intervals=False)
    write(tmp_path / "out", {"report.html": "<!doctype html>"})
    evaluate(*given, out=tmp_path / "out", intervals=False)
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    "files",
    [
        {"recipe.yaml": "mine"},
        {"evaluation/gold.parquet": "half", "notes.txt": "mine"},
        {"evaluation/mine.parquet": "mine"},
        {"evaluation.yaml": "score: 3\n", "metrics.json": "{}"},
        RUN,
    ],
)
def test_a_folder_of_something_else_is_refused(
    given: tuple[Path, Path], tmp_path: Path, files: dict[str, str]
) -> None:
    write(tmp_path / "out", files)
    with pytest.raises(InputError, match="holds something other than an evaluation; name a new folder"):
        evaluate(*given, out=tmp_path / "out")
