"""What the plots of a report share."""

from __future__ import annotations

import re
import warnings

import pytest
from matplotlib.textpath import TextPath

from rayner.metrics.reliability import reliability, risk_coverage
from rayner.runtime.reports.drawing import short, svg
from rayner.runtime.reports.figures import training_curves
from rayner.runtime.reports.figures_confidence import MENTIONS, calibration_curves
from rayner.runtime.reports.figures_end_to_end import outcome_bars
from rayner.runtime.reports.figures_linking import answer_curves
from rayner.runtime.reports.figures_sweep import Point, interactions


def test_letters_that_matplotlibs_font_lacks_are_drawn_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = svg("types", (3, 2), lambda figure: figure.subplots().set_title("機関 ಸ್ಥಳ"))
    assert "機関 ಸ್ಥಳ" in drawn


def test_a_curve_of_one_point_can_be_seen() -> None:
    drawn = training_curves({"all": ([20], [0.17])}, {}, ([20], [6e-5]))
    lines = re.findall(r'<g id="line2d_\d+">.*?</g>\s*</g>', drawn, re.DOTALL)
    seen = [line for line in lines if "var(--series-1)" in line and "<use" in line]
    assert len(seen) >= 2


@pytest.mark.parametrize(
    "drawn",
    [
        answer_curves([{"coverage": 1.0, "accuracy": 1.0, "confidence": 0.5}], [], None, None),
        calibration_curves(reliability([0.9, 0.9], [1, 0]), risk_coverage([0.9, 0.9], [1, 0]), MENTIONS),
    ],
)
def test_a_curve_of_one_answer_can_be_seen(drawn: str) -> None:
    *_, last = drawn.split('<g id="axes_')
    assert re.search(r"<use[^>]*var\(--series-[12]\)", last)


def test_a_long_name_keeps_both_ends() -> None:
    ends = [short(f"/a/very/long/path/to/some/folder/{name}") for name in ("one", "two")]
    assert ends == ["/a/very/long/pa…/some/folder/one", "/a/very/long/pa…/some/folder/two"]
    assert [len(end) for end in ends] == [32, 32]
    assert short("a" * 32) == "a" * 32


def test_no_label_begins_left_of_the_picture() -> None:
    steps = range(20, 200, 20)
    parts = ("all", "start", "end", "span", "start_threshold", "end_threshold", "span_threshold")
    losses = {name: (steps, [3.5 - step / 54 for step in steps]) for name in parts}
    scores = {name: ([30, 60, 90], [0.7, 0.8, 0.86]) for name in ("f1", "macro_f1", "loose_f1")}
    drawn = training_curves(losses, scores, (steps, [3e-4 - step / 1e6 for step in steps]))
    left = float(re.findall(r'viewBox="(\S+)', drawn)[0])
    ends = re.findall(r'<text style="[^"]*text-anchor: end[^"]*" x="([-\d.]+)"[^>]*>([^<]+)</text>', drawn)
    assert len(ends) > 10
    for end, text in ends:
        assert float(end) - TextPath((0, 0), text, size=10).get_extents().width >= left, text


@pytest.mark.filterwarnings("error")
def test_where_gold_mentions_end_is_drawn_without_any_too() -> None:
    """Of a corpus without mentions, as whoever forgot to name the annotated one evaluates."""
    assert "<svg" in outcome_bars([("all", {})])


def test_a_type_may_have_the_name_of_all() -> None:
    drawn = outcome_bars([("all", {"right": 50, "missed": 50}), ("all", {"right": 1})])
    assert re.findall(r">(all \([\d,]+\))<", drawn) == ["all (100)", "all (1)"]


def test_the_circle_is_around_the_first_trial() -> None:
    """Which is the best: one that was stopped has a better score of less."""
    points = [
        Point(n, {"a": float(n), "b": float(n * n)}, score, True)
        for n, score in ((1, 0.7), (2, 0.9), (3, 0.5))
    ]
    drawn = interactions(points, [("a", "b")], {"a": "a", "b": "b"})
    dots = re.findall(r'<use xlink:href="#\w+" x="([\d.]+)"', drawn.partition('id="PathCollection_1"')[2])
    [circle] = re.findall(r'id="PathCollection_4">\s*<path d="M ([\d.]+)', drawn)
    assert dots.index(circle) == 1, "the dots are drawn from the worst to the best"
