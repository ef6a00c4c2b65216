"""What is held against a document over which the work was cut short, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayner.files.places import Place, place_of
from rayner.runtime.annotation import attempts
from rayner.runtime.annotation.attempts import DEATHS, UNTROUBLED, Attempts
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import TEXTS, here, rows, write_jsonl


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The nodes of a cluster; this process is on the node `here`."""
    nodes = {"here"}
    monkeypatch.setattr(attempts, "this_node", lambda: "here")
    monkeypatch.setattr(attempts, "node_lives", nodes.__contains__)
    return nodes


def die(place: Place, run: str, source: str = "a.jsonl:1") -> bool:
    """Begin, come to a document where the work is careful, and end there; whether it was given up."""
    attempt = Attempts.begin(place, run)
    return attempt.is_careful and attempt.is_lethal(source)


def test_a_document_that_actors_die_over_is_given_up(tmp_path: Path, alive: set[str]) -> None:
    place = place_of(tmp_path / "block.json")
    assert not any(die(place, "run") for _ in range(UNTROUBLED + DEATHS))
    assert die(place, "run")
    assert not Attempts.begin(place, "run").is_lethal("a.jsonl:2")


def test_deaths_are_remembered_by_the_next_run(tmp_path: Path, alive: set[str]) -> None:
    place = place_of(tmp_path / "block.json")
    assert not any(die(place, "run") for _ in range(UNTROUBLED + DEATHS))
    # The driver dies as well now: this last death counts for nobody.
    assert not die(place, "another")
    assert die(place, "another")


def test_a_driver_that_dies_is_no_fault_of_a_document(tmp_path: Path, alive: set[str]) -> None:
    place = place_of(tmp_path / "block.json")
    for run in range(20):
        attempt = Attempts.begin(place, f"run {run}")
        assert not attempt.is_careful
        assert not attempt.is_lethal("a.jsonl:1")


def test_a_node_that_is_lost_is_no_fault_of_a_document(tmp_path: Path, alive: set[str]) -> None:
    place = place_of(tmp_path / "block.json")
    alive.clear()
    assert not any(die(place, "run") for _ in range(20))


def test_a_run_that_is_stopped_again_and_again_rejects_nothing(tmp_path: Path) -> None:
    given = write_jsonl(tmp_path / "in.jsonl", TEXTS)

    class Stopped(Capitals):
        def load(self, device: str | None) -> Any:
            predictor = super().load(device)

            def stop(windows: Any) -> Any:
                raise KeyboardInterrupt

            predictor.forward = stop
            return predictor

    for _ in range(8):
        with pytest.raises(KeyboardInterrupt):
            here(given, tmp_path / "out", model=Stopped())
    assert here(given, tmp_path / "out")["rejected"] == 0
    assert len(rows(tmp_path / "out")) == len(TEXTS)
