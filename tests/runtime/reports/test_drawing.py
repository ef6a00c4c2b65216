"""What the plots of a report share."""

from __future__ import annotations

import warnings

from rayner.runtime.reports.drawing import svg


def test_letters_that_matplotlibs_font_lacks_are_drawn_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = svg("types", (3, 2), lambda figure: figure.subplots().set_title("機関 ಸ್ಥಳ"))
    assert "機関 ಸ್ಥಳ" in drawn
