"""What tests of what the runtime writes share."""

from __future__ import annotations

from typing import Any, TextIO

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made up to their drawing, which takes matplotlib most of the time of a report."""
    from matplotlib.figure import Figure

    def put_in_place(figure: Figure, file: TextIO, **_options: Any) -> None:
        file.write("<svg></svg>")

    monkeypatch.setattr(Figure, "savefig", put_in_place)
    monkeypatch.setattr(Figure, "draw_without_rendering", lambda figure: None)
