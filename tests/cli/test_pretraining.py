"""What commands say of a pre-training, which answers nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayner.runtime.training.train import train
from rayner.tasks.registry import parse_recipe
from tests.tasks.chains.small_chains import chains_recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pre-training on chains in `run`."""
    found = tmp_path_factory.mktemp("pretraining")
    train(parse_recipe(chains_recipe(found), "recipe"), found / "run")
    return found


def test_evaluate_annotate_and_serve_end_with_2_and_a_hint(run, folder, tmp_path):
    best, corpus = folder / "run" / "best", folder / "dev.jsonl"
    (tmp_path / "serve.yaml").write_text(f"checkpoint: {best}\n")
    (tmp_path / "pipeline.yaml").write_text(f"stages: [{{checkpoint: {best}}}]\n")
    said = "which has nothing to answer; train another task with it as its `encoder`"
    for arguments in (
        ("evaluate", best, corpus),
        ("predict", best, "Ada slept."),
        ("predict", tmp_path / "pipeline.yaml", "Ada slept."),
        ("annotate", best, corpus, "--out", tmp_path / "out", "--workers", "0"),
        ("serve", tmp_path / "serve.yaml"),
    ):
        status, _, error = run(*arguments)
        assert (status, said in error) == (2, True), (arguments, error)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.parquet"))


def test_its_report_shows_the_metric_on_dev(run, folder):
    status, _, error = run("report", folder / "run")
    assert status == 0, error
    page = (folder / "run" / "report.html").read_text()
    assert "mean reciprocal rank" in page
    assert "Left out" not in page
