"""`ray job submit` from a clean clone to a head that asks for a token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from rayner.tasks.registry import load_recipe
from tests.faults.own_ray import Head, own_head

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

TOKEN = "a-secret-of-this-test-that-is-long-enough"
SHORT = ["encoder=random:32x2", "training.epochs=2", "training.tokens_per_step=2000"]


@pytest.fixture(scope="module")
def clone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed and nothing else."""
    if not (root / ".git").exists():
        pytest.skip("not a git working tree")
    folder = tmp_path_factory.mktemp("clones") / "clone"
    subprocess.run(["git", "clone", "-q", "--local", str(root), str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with all that is installed here but rayner."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/*/site-packages"))
    # Ray and the others come in by a path; what such a path's own .pth files name, rayner, does not.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(folder / "bin/python")
    assert subprocess.run([python, "-c", "import ray"], cwd=folder).returncode == 0
    assert subprocess.run([python, "-c", "import rayner"], cwd=folder, stderr=subprocess.DEVNULL).returncode
    return python


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def head(bare_python: str, storage: Path) -> Iterator[Head]:
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAYNER_STORAGE": str(storage),
        "PATH": f"{Path(bare_python).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    environment |= dict.fromkeys(("PYTHONPATH", "VIRTUAL_ENV", "RAYNER_TASKS"), "")
    with own_head(bare_python, ["--num-cpus", "3"], environment) as head:
        yield head


def submit(
    python: str, head: Head, clone: Path, job: Sequence[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [
        *(python, "-m", "ray.scripts.scripts", "job", "submit", "--address", head.dashboard),
        *("--runtime-env", "jobs/runtime_env.yaml", "--working-dir", ".", "--", "python", "-m", *job),
        *(part for value in SHORT for part in ("--set", value)),
    ]
    known = {**head.environment, **environment}
    return subprocess.run(command, cwd=clone, env=known, capture_output=True, text=True)


def printed(done: subprocess.CompletedProcess[str], first: str) -> dict[str, Any]:
    """The object that a job printed, by its first key."""
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return next(json.loads(line) for line in done.stdout.splitlines() if line.startswith(f'{{"{first}"'))


def test_a_submitted_training_leaves_its_checkpoint(
    clone: Path, bare_python: str, head: Head, storage: Path
) -> None:
    train = ["jobs.train", "jobs/recipes/recognizer.yaml", "--workers", "2", "--json"]
    refused = submit(bare_python, head, clone, train, RAY_AUTH_TOKEN=TOKEN[::-1])
    assert refused.returncode
    assert "token" in (refused.stderr + refused.stdout).lower()
    result = printed(submit(bare_python, head, clone, train), "checkpoint")
    checkpoint = storage / "runs/recognizer/best"
    assert result["checkpoint"] == str(checkpoint)
    assert result["steps"] > 0
    assert load_file(checkpoint / "model.safetensors")
    assert not (clone / "runs").exists()


def test_a_submitted_sweep_leaves_its_best_recipe(
    clone: Path, bare_python: str, head: Head, storage: Path
) -> None:
    tune = ["jobs.tune", "tune_spaces/recognizer.py:beta", "jobs/recipes/recognizer.yaml", "--trials", "2"]
    result = printed(submit(bare_python, head, clone, [*tune, "--json"]), "best")
    out = storage / "runs/tune_recognizer"
    assert result["best"] == str(out / "best.yaml")
    assert sum(result["trials"].values()) == 2
    assert load_file(out / "winner/best/model.safetensors")
    assert load_recipe(out / "best.yaml").loss.beta == result["settings"]["loss.beta"]
    assert not (clone / "runs").exists()
