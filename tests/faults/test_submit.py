"""`ray job submit` from a clean clone to a head that asks for a token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.faults.own_ray import own_head

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


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_submitted_training_leaves_its_checkpoint(clone: Path, bare_python: str, tmp_path: Path) -> None:
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAYNER_STORAGE": str(tmp_path / "storage"),
        "PATH": f"{Path(bare_python).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    environment |= dict.fromkeys(("PYTHONPATH", "VIRTUAL_ENV"), "")
    with own_head(bare_python, ["--num-cpus", "3"], environment) as head:
        train = ["python", "-m", "jobs.train", "jobs/recipes/recognizer.yaml", "--workers", "2", "--json"]
        submit = [
            *(bare_python, "-m", "ray.scripts.scripts", "job", "submit", "--address", head.dashboard),
            *("--runtime-env", "jobs/runtime_env.yaml", "--working-dir", ".", "--", *train),
            *(part for value in SHORT for part in ("--set", value)),
        ]
        other = {**head.environment, "RAY_AUTH_TOKEN": TOKEN[::-1]}
        refused = subprocess.run(submit, cwd=clone, env=other, capture_output=True, text=True)
        assert refused.returncode
        assert "token" in (refused.stderr + refused.stdout).lower()
        done = subprocess.run(submit, cwd=clone, env=dict(head.environment), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

    checkpoint = tmp_path / "storage/runs/recognizer/best"
    result = next(json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"checkpoint"'))
    assert result["checkpoint"] == str(checkpoint)
    assert result["steps"] > 0
    assert load_file(checkpoint / "model.safetensors")
    assert not (clone / "runs").exists()
