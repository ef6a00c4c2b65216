"""jobs/: what `ray job submit` runs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from rayner.cli.app import app

COMMANDS = {
    *(command.name or command.callback.__name__ for command in app.registered_commands if command.callback),
    *(group.name for group in app.registered_groups if group.name),
} - {"quickstart", "predict"}
"""Those for a cluster; the quick start and the answers on a terminal are for one's own machine."""


def test_jobs_mirror_the_commands(root):
    assert {path.stem for path in (root / "jobs").glob("*.py")} - {"__init__"} == COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_job_runs_its_command(root, command):
    text = (root / f"jobs/{command}.py").read_text(encoding="utf-8")
    assert f'main(["{command}", *sys.argv[1:]])' in text


def test_what_a_job_leaves_behind_is_of_the_tree_alone(root):
    """Without a slash a pattern is for all folders of the name: a user's data/docs would not be sent."""
    left = yaml.safe_load((root / "jobs/runtime_env.yaml").read_text(encoding="utf-8"))["excludes"]
    assert left
    assert all(pattern.startswith("/") for pattern in left)


def test_a_job_finds_the_package_by_its_runtime_environment_alone(root):
    environment = yaml.safe_load((root / "jobs/runtime_env.yaml").read_text(encoding="utf-8"))["env_vars"]
    done = subprocess.run(
        [sys.executable, "-m", "jobs.train", "--help"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "RECIPE" in done.stdout
