"""Jobs on a cluster whose head has no CPUs: their work goes to a node, and what they print comes back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.faults.own_ray import Nodes
from tests.runtime.training.several_workers import toy_values

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


def job(nodes: Nodes, root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {**nodes.head.environment, "RAY_ADDRESS": nodes.head.gcs, **environment}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=root, env=known, capture_output=True, text=True)


@pytest.fixture(scope="module")
def node(nodes: Nodes) -> str:
    nodes.have(1)
    return nodes.addresses[0]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipes")
    values = toy_values(folder, epochs=1) | {"scaling": {"memory_per_worker": 0.25}}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values))
    return folder / "recipe.yaml"


def test_a_job_that_fits_no_node_says_so_in_time(nodes: Nodes, node: str, root: Path, recipe: Path) -> None:
    needs = ["--set", "scaling.gpus_per_worker=1"]
    done = job(nodes, root, "jobs.train", str(recipe), *needs, RAYNER_WAIT_SECONDS="2")
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert line.startswith("error: the cluster: no node has had room for cpus 1")
    assert "gpus 1" in line
    assert "RAYNER_WAIT_SECONDS" in line


def test_a_training_without_workers_works_on_a_node(
    nodes: Nodes, node: str, root: Path, recipe: Path, tmp_path: Path
) -> None:
    done = job(nodes, root, "jobs.train", str(recipe), "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"works on node {node}" in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["checkpoint"] == str(tmp_path / "run/best")
    assert "dev" in done.stderr + done.stdout


def test_the_check_of_a_corpus_ends_as_it_does_alone(
    nodes: Nodes, node: str, root: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "text": "Ada", "mentions": [{"start": 0, "end": 9, "type": "PER"}]}\n')
    check = ["corpus", "check", str(corpus), "--json"]
    alone = subprocess.run([sys.executable, "-m", "rayner", *check], capture_output=True, text=True)
    done = job(nodes, root, "jobs.corpus", *check[1:])
    assert f"works on node {node}" in done.stderr
    assert done.returncode == alone.returncode
    assert done.stdout.splitlines()[-1] == alone.stdout.splitlines()[-1]
