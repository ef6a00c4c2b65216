"""Where the numbers of a run go."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.errors import DivergedError
from rayner.runtime.tracking import MLflow, tracked
from tests.runtime.training.toy_task import toy_recipe


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "FINISHED"),
        (DivergedError("step 3", "the loss is not finite"), "FAILED"),
        (KeyboardInterrupt(), "KILLED"),
        (SystemExit(1), "KILLED"),
    ],
)
def test_mlflow_has_how_a_training_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException | None, status: str
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    ended: list[str] = []
    monkeypatch.setattr(MLflow, "_start", lambda *_: None)
    monkeypatch.setattr(mlflow, "end_run", ended.append)

    def run() -> None:
        with tracked(tmp_path, toy_recipe(), 0, []):
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    assert ended == [status]
