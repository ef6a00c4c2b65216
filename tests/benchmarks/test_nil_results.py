"""What `python -m benchmarks.nil_results` makes of a fold's probabilities."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import nil_results
from benchmarks.linking_results import Run
from benchmarks.nil_results import Confidence

PROBABILITY = np.array([0.9, 0.8, 0.3, 0.7, 0.2, 0.1])
RIGHT = np.array([True, True, False, False, False, False])
IS_NIL = np.array([False, False, False, True, True, True])


def scores(threshold: float, share: float, cut: np.ndarray = PROBABILITY) -> dict[str, float]:
    given = Confidence(PROBABILITY, cut, threshold)
    return nil_results._scores(given, RIGHT, IS_NIL, share, np.array([0.05]))


def test_accuracy_counts_by_the_share_of_nil_and_hindsight_by_the_best_cut() -> None:
    found = scores(0.25, 0.3)
    assert found["accuracy"] == pytest.approx(0.7 * 2 / 3 + 0.3 * 2 / 3)
    assert found["best"] == pytest.approx(0.7 * 2 / 3 + 0.3)
    assert found["regret"] == pytest.approx(0.1)
    assert (found["auc_own"], found["auc_strangers"]) == (pytest.approx(8 / 9), 1)
    assert scores(1.0, 1.0)["regret"] == pytest.approx(0)
    assert scores(0.0, 0.0)["accuracy"] == pytest.approx(2 / 3)


def test_hindsight_cuts_what_the_operating_point_cuts() -> None:
    # By these odds the third is the surest: to link the right ones means to link it, and one of NIL.
    cut = np.array([1.0, 0.0, 2.0, 0.5, -1.0, -2.0])
    found = scores(0.0, 0.3, cut)
    assert (found["accuracy"], found["best"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert str(found["regret"]) == "0.0"
    assert min(scores(threshold, 0.3, cut)["regret"] for threshold in (*cut, 3.0)) == 0


def test_a_row_is_the_mean_of_folds_and_a_finished_fold_is_not_asked_again(tmp_path: Path) -> None:
    runs = [Run("esappmod", fold, 1) for fold in (0, 1)]
    for run, threshold in zip(runs, (0.0, 1.0), strict=True):
        file = nil_results.file_of(run, "untrained", tmp_path)
        file.parent.mkdir()
        labels = {"index": "names", "by": "accuracy", "nil_share": 0.5}
        file.write_text(json.dumps([labels | scores(threshold, 0.5)]))
        assert nil_results.measure(run, "untrained", tmp_path, None, ()) == 0  # type: ignore[arg-type]
    (row,) = nil_results.rows(runs, ["untrained", "trained"], tmp_path)
    assert (row["encoder"], row["folds"], row["commits"]) == ("untrained", 2, "not recorded")
    assert row["accuracy"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    assert row["ece_pooled"] == pytest.approx(row["ece"])


def test_what_accuracy_replaced_is_one_cut_whatever_the_share() -> None:
    rng = np.random.default_rng(0)
    right = rng.random(200) < 0.4
    given = rng.normal(0, 1, (200, 3)) + right[:, None]
    confidence = nil_results._balanced(given, right, ~right)
    (probability, cut, threshold), (again, _, same) = confidence(given, 0.0), confidence(given, 0.5)
    assert (probability == again).all()
    assert (cut == probability).all()
    assert threshold == same
    linked = cut >= threshold
    balance = linked[right].mean() + (~linked[~right]).mean()
    cuts = probability >= np.unique(probability)[:, None]
    assert balance == pytest.approx(max(c[right].mean() + (~c[~right]).mean() for c in cuts))
