"""A pool of workers for each stage of a pipeline: the same answers as workers that hold all stages."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayner.errors import InputError
from rayner.runtime.annotation import annotate as module
from rayner.runtime.annotation.annotate import annotate
from rayner.runtime.annotation.annotation_progress import Tick
from rayner.runtime.annotation.block import BlockAnnotator, Done
from rayner.runtime.annotation.execution import Pool
from rayner.runtime.annotation.missing_blocks import ToRead, missing_blocks
from rayner.runtime.annotation.output_folder import Output
from rayner.runtime.annotation.pools import PoolSettings, pool_of
from rayner.tasks.typer.predictor import TypeStage
from tests.runtime.annotation.annotate_texts import here, rejects, rows, untimed, write_jsonl
from tests.serving.checkpoints import PEOPLE, TEXTS, pipeline_folder

pytestmark = pytest.mark.usefixtures("small_blocks")


def passed_on(
    annotator: partial[BlockAnnotator], work: Sequence[ToRead], output: Output, pool: Pool
) -> Iterator[Tick]:
    """As `run_on_ray` with a worker for each stage, in this process."""
    stages = [annotator(stage=stage) for stage in range(pool.stages or 0)]
    for to_read in work:
        for name, block in missing_blocks(to_read, output):
            done: Any = block
            for stage in stages:
                done = pickle.loads(pickle.dumps(stage(name, done)))
            assert isinstance(done, Done)
            yield Tick(done, block.consumed)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contexts, mentions, types and entities."""
    return pipeline_folder(tmp_path_factory.mktemp("pipeline"), PEOPLE) / "pipeline.yaml"


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Documents of several sentences, in several blocks, one id twice."""
    texts = [" ".join(TEXTS[i : i + 3]) for i in range(len(TEXTS))] * 4
    path = write_jsonl(tmp_path / "in.jsonl", texts)
    with path.open("a") as file:
        file.write(json.dumps({"document_id": "d0", "text": "Again."}) + "\nno JSON\n")
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*"))}


def spans(row: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(mention["start"], mention["end"], mention["type"]) for mention in row["mentions"]]


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_on_ray", passed_on)
    monkeypatch.setattr(module, "pool_of", lambda asked, stages: Pool(1, 1, 1, 0, stages))
    monkeypatch.setattr(module, "with_memory", lambda pool, *_: pool)


@pytest.mark.usefixtures("without_ray")
def test_stages_apart_answer_as_all_in_one(pipeline: Path, given: Path, tmp_path: Path) -> None:
    also: Any = ("jsonl", "contexts")
    wanted = here(given, tmp_path / "here", model=pipeline, also=also)
    counts = annotate(pipeline, [given], tmp_path / "out", also=also, pool_per_stage=True)
    assert untimed(counts) == untimed(wanted)
    assert counts["workers"] == 4
    assert counts["duplicates"] == 1
    assert rows(tmp_path / "out") == rows(tmp_path / "here")
    assert rejects(tmp_path / "out") == rejects(tmp_path / "here")
    assert files(tmp_path / "out/_jsonl") == files(tmp_path / "here/_jsonl")
    found = [mention for row in rows(tmp_path / "out") for mention in row["mentions"]]
    assert any(mention["types"] for mention in found)
    assert any(mention["candidates"] for mention in found)
    assert any(sentence["contexts"] for row in rows(tmp_path / "out") for sentence in row["sentences"])


@pytest.mark.usefixtures("without_ray")
def test_what_a_later_stage_fails_on_is_rejected_alone(
    pipeline: Path, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = TypeStage.prepare

    def fails(self: TypeStage, item: Any) -> Any:
        if item.document_id == "d3":
            raise ValueError("cannot read this")
        return prepare(self, item)

    monkeypatch.setattr(TypeStage, "prepare", fails)
    counts = annotate(pipeline, [given], tmp_path / "out", pool_per_stage=True)
    what = "the model failed on it (ValueError: cannot read this)"
    assert [row["document_id"] for row in rejects(tmp_path / "out") if row["what"] == what] == ["d3"]
    found = rows(tmp_path / "out")
    assert len(found) == counts["documents"]
    assert "d3" not in {row["document_id"] for row in found}
    # Windows and sources stay those of their documents. Scores of a batch of one differ in the last digit.
    here(given, tmp_path / "here", model=pipeline)
    wanted = {row["document_id"]: row for row in rows(tmp_path / "here")}
    for row in found:
        for name in ("windows", "source"):
            assert row[name] == wanted[row["document_id"]][name]
        assert spans(row) == spans(wanted[row["document_id"]])


def test_a_pool_for_each_stage_on_ray(ray_cluster: None, pipeline: Path, given: Path, tmp_path: Path) -> None:
    stages = yaml.safe_load(pipeline.read_text())["stages"][1:3]
    two = pipeline.with_name("two.yaml")
    two.write_text(yaml.safe_dump({"stages": stages}))
    wanted = here(given, tmp_path / "here", model=two)
    counts = annotate(two, [given], tmp_path / "out", pool_per_stage=True, workers=1)
    assert untimed(counts) == untimed(wanted)
    assert counts["workers"] == 2
    assert rows(tmp_path / "out") == rows(tmp_path / "here")


@pytest.mark.parametrize(
    ("there", "alone", "workers", "each"),
    [
        ({"CPU": 2.0}, True, None, (0.6666, 0.0)),
        ({"CPU": 8.0, "GPU": 1.0}, True, 2, (1.0, 0.1666)),
        ({"CPU": 8.0, "GPU": 6.0}, True, 2, (1.0, 1.0)),
        # A cluster may grow.
        ({"CPU": 2.0}, False, None, (1.0, 0.0)),
    ],
)
def test_pools_share_a_machine_that_never_has_more(
    monkeypatch: pytest.MonkeyPatch,
    there: dict[str, float],
    alone: bool,
    workers: int | None,
    each: tuple[float, float],
) -> None:
    monkeypatch.setattr("rayner.runtime.cluster.ensure_ray", lambda: None)
    monkeypatch.setattr("rayner.runtime.cluster.is_one_machine", lambda: alone)
    monkeypatch.setattr("ray.cluster_resources", lambda: there)
    pool = pool_of(PoolSettings(workers), 3)
    assert (pool.cpus, pool.gpus) == each
    asked = pool_of(PoolSettings(workers, cpus=1.5, gpus=0.5), 3)
    assert (asked.cpus, asked.gpus) == (1.5, 0.5)


def test_it_asks_for_workers(pipeline: Path, given: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--pool-per-stage: conflicts with --workers 0"):
        annotate(pipeline, [given], tmp_path / "out", pool_per_stage=True, workers=0)


def test_pools_that_have_no_room_together_are_not_waited_for_without_end(
    ray_cluster: None, pipeline: Path, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYNER_WAIT_SECONDS", "1")
    with pytest.raises(
        InputError, match=r"there has been no room for 4 x cpus 2\.0, memory 0\.5 GiB for 1 s"
    ):
        annotate(pipeline, [given], tmp_path / "out", pool_per_stage=True, workers=1, cpus=2.0)
