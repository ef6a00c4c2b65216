"""Work on another node, or another process of this one: begun again where it is lost, and refused in time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rayner.errors import InputError, RaynerError
from rayner.runtime.elsewhere import ATTEMPTS, WAIT_VARIABLE, Needs, work_elsewhere

pytestmark = pytest.mark.usefixtures("ray_cluster")


@pytest.mark.faults
def test_work_that_loses_its_process_is_begun_again() -> None:
    def begin(attempt: int) -> tuple[int, str, str]:
        if attempt == 1:
            os._exit(1)
        return attempt, os.environ["GIVEN"], os.getcwd()

    assert work_elsewhere(begin, Needs(), {"GIVEN": "this"}) == (2, "this", os.getcwd())


@pytest.mark.faults
def test_work_that_is_lost_each_time_is_given_up(tmp_path: Path) -> None:
    def begin(attempt: int) -> None:
        (tmp_path / str(attempt)).touch()
        os._exit(1)

    with pytest.raises(RaynerError, match=f"{ATTEMPTS} times"):
        work_elsewhere(begin, Needs(cpus=0.5), {})
    assert len(list(tmp_path.iterdir())) == ATTEMPTS


def test_work_that_fits_nowhere_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, "0.5")
    with pytest.raises(InputError, match=r"no node has had room for cpus 1000 for 0\.5 s; free are .* CPU"):
        work_elsewhere(lambda attempt: attempt, Needs(cpus=1000), {})
