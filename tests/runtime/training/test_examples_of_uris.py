"""Where the example sets of a run at a URI lie, and what is wrong in its folder on a worker's machine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rayner.errors import CheckpointError
from rayner.files.uris import uri_of
from rayner.runtime.training import loop
from rayner.runtime.training import train as training
from tests.files.folders_at_uris import published, uri
from tests.object_storage import BUCKET, Storage
from tests.runtime.training.toy_task import toy_recipe


@pytest.mark.parametrize(
    ("out", "workers", "cache"),
    [
        ("examples-of/one", 2, f"s3://{BUCKET}/examples-of/.examples"),
        ("examples-of/two", 0, None),
    ],
)
def test_workers_find_the_examples_of_a_run_at_a_uri_beside_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, out: str, workers: int, cache: str | None
) -> None:
    found: list[Path] = []
    monkeypatch.setattr(training, "train_task", _Task)
    monkeypatch.setattr(training, "_train", lambda launch, cache: found.append(cache))
    training.train_until(1, toy_recipe(), Path(uri(out)), workers=workers)
    assert [uri_of(one) for one in found] == [cache]


def test_what_is_wrong_in_the_folder_of_a_worker_is_told_of_the_uri(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = published("told")
    run: Any = SimpleNamespace(recipe=toy_recipe(), publication=publication)

    def fail(run: Any) -> Any:
        raise CheckpointError(str(publication.folder / "last"), "is damaged", "start over with --fresh")

    monkeypatch.setattr(loop, "_work", fail)
    with pytest.raises(CheckpointError, match=r"^s3://tests/told/last: is damaged"):
        loop.work(run)


def test_beside_a_bucket_there_is_nothing() -> None:
    bucket: Any = SimpleNamespace(uri=f"s3://{BUCKET}")
    assert training._beside(Path("/local/work/tests"), bucket, 2) == Path("/local/work")


class _Task:
    metric, builds_from_items = "f1", False

    def __init__(self, recipe: Any) -> None:
        self.recipe = recipe

    def build(self) -> Any:
        """Nothing is trained here."""
