"""What a conversion leaves, and the size of the parts in which it works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rayner.data import scans
from rayner.data.readers import files
from rayner.files.fetching import local


def content(out: str | Path) -> dict[str, bytes]:
    """Every file, less what differs from run to run."""
    found = {p.name: p.read_bytes() for p in sorted(local(out).iterdir()) if p.name != ".lock"}
    counts = json.loads(found.pop("counts.json"))
    return {**found, "counts": repr({k: v for k, v in counts.items() if k != "seconds"}).encode()}


@contextmanager
def parts_of(size: int) -> Iterator[None]:
    """Within it, files are read in parts of so many bytes."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (files, scans):
            patch.setattr(module, "PART_BYTES", size)
        yield
