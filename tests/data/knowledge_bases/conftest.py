"""Files of knowledge bases."""

from __future__ import annotations

import pytest


@pytest.fixture
def file(tmp_path):
    """Write a file of the test's folder."""

    def write(name: str, text: str):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write
