"""What the tests of annotation share."""

from __future__ import annotations

import pytest


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few documents, so that a small input has many."""
    monkeypatch.setattr("rayner.runtime.annotation.input_shards.LEAST_BLOCK", 2**12)
