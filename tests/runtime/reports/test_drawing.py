"""What the plots of a report share."""

from __future__ import annotations

import re
import warnings

from rayner.runtime.reports.drawing import svg
from rayner.runtime.reports.figures import training_curves


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
