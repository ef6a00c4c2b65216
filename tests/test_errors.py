from __future__ import annotations

import pytest

from rayner.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [(OSError("gone\nTry again."), "gone"), (ValueError("\n no\n"), "no"), (RuntimeError(), "RuntimeError")],
)
def test_an_error_that_says_nothing_is_told_by_its_type(error: Exception, line: str) -> None:
    assert first_line(error) == line
