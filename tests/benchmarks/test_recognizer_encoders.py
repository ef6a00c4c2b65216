"""What the rows of `python -m benchmarks.recognizer_encoders` are over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.recognizer_encoders import SCORED, rows


def test_gains_are_over_the_untrained_encoder_of_the_seeds_that_both_have(tmp_path: Path) -> None:
    counts = {
        "NCBI_untrained_1": [[1, 2, 2], [1, 2, 2]],
        "NCBI_Gaussian_1": [[2, 2, 2], [1, 2, 2]],
        "NCBI_Gaussian_2": [[2, 2, 2], [2, 2, 2]],
        "LitBank_Gaussian_1": [[1, 1, 2]],
    }
    for name, of_documents in counts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / SCORED).write_text(json.dumps(of_documents))
    alone, plain, gaussian = rows(["LitBank", "NCBI"], [1, 2, 3], tmp_path)
    assert (alone["corpus"], alone["precision"], alone["recall"]) == ("LitBank", 1, 0.5)
    assert (plain["encoder"], plain["seeds"], plain["f1"]) == ("untrained", 1, pytest.approx(0.5))
    assert not {"gain", "f1_deviation"} & {*alone, *plain}
    assert (gaussian["seeds"], gaussian["f1"]) == (2, pytest.approx(0.875))
    assert (gaussian["gain"], gaussian["gain_interval"]) == (pytest.approx(0.25), pytest.approx([0, 0.5]))
