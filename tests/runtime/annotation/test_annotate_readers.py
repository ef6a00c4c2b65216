"""How many readers there are, and where: one for each actor, on nodes that are there for work."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.annotation.execution import _has_idle_head
from tests.runtime.annotation.annotate_model import Capitals
from tests.runtime.annotation.annotate_texts import TEXTS, write_jsonl

HEAD = "node:__internal_head__"


@pytest.mark.parametrize(
    ("nodes", "is_idle"),
    [
        ([{"CPU": 4.0, HEAD: 1.0}], False),
        ([{HEAD: 1.0}], True),
        ([{"CPU": 4.0}, {"CPU": 0.0, HEAD: 1.0}], True),
        ([{"CPU": 4.0, HEAD: 1.0}, {"memory": 1.0}], False),
    ],
)
def test_a_head_without_cpus_is_there_for_no_work(nodes: list[dict[str, float]], is_idle: bool) -> None:
    living = [{"Alive": True, "Resources": resources} for resources in nodes]
    lost = {"Alive": False, "Resources": {HEAD: 1.0}}
    assert _has_idle_head([*living, lost]) is is_idle


def test_readers_are_as_many_as_actors_may_become(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool may ask for more than the cluster has as yet. Noted before any of them starts."""
    given = [write_jsonl(tmp_path / f"{number}.jsonl", TEXTS[:5], f"{number}-") for number in range(9)]

    def readers(size: int) -> NoReturn:
        raise RuntimeError(f"{size} readers")

    import ray.data

    monkeypatch.setattr(ray.data, "TaskPoolStrategy", readers)
    with pytest.raises(RuntimeError, match=r"^7 readers$"):
        annotate(Capitals(), given, tmp_path / "out", max_workers=7, cpus=0.5)
