"""Steps of float16 that are skipped because their gradients overflow."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
import torch

from rayner.errors import DivergedError
from rayner.runtime.training.learner import MOST_SKIPPED, Meter
from rayner.runtime.training.loop import work
from tests.runtime.training.toy_task import toy_run


def meter(*norms: float) -> Meter:
    """After steps with these norms of their gradients."""
    found = Meter({"word": 1.0}, torch.device("cpu"), may_skip=True)
    for step, norm in enumerate(norms):
        found.add(step, torch.ones(1, dtype=torch.float64), torch.tensor(norm))
    return found


def test_a_search_for_the_loss_scale_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    found = meter(*[math.inf] * 20, *[1.0] * 60)
    found.check()
    found.conclude(80)
    assert not caplog.records


def test_a_stretch_without_any_step_ends_a_run() -> None:
    meter(*[math.nan] * MOST_SKIPPED).check()
    meter(*[math.inf] * MOST_SKIPPED, 1.0, *[math.inf] * MOST_SKIPPED).check()
    with pytest.raises(DivergedError, match=r"the last 51 steps were skipped.* training.precision=bfloat16"):
        meter(1.0, *[math.nan] * (MOST_SKIPPED + 1)).check()


def test_many_skipped_steps_are_told_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    meter(*[math.inf] * 11, *[1.0] * 7).conclude(18)
    assert "11 of 18 steps were skipped" in caplog.text


def test_a_run_that_went_on_for_a_step_need_not_have_taken_it(caplog: pytest.LogCaptureFixture) -> None:
    meter(math.inf).conclude(100)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_run_of_which_all_steps_were_skipped_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.nn.utils, "get_total_norm", lambda grads: torch.tensor(math.inf))
    with pytest.raises(DivergedError, match=r"all \d+ steps were skipped"):
        work(toy_run(tmp_path, epochs=1, precision="float16", clip=None))
    assert not (tmp_path / "result.json").exists()
