"""Whether a folder or a URI can be written to."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path

from rayner.files.places import place_of
from rayner.files.stores import SCHEMES, check_conditional_writes
from rayner.files.uris import uri_of


def free_after_writing(given: str) -> int | None:
    """The free bytes of a folder's disk, after small files were written and removed again; None of a URI.

    Raises:
        InputError, StorageError: as whoever works at a URI.
        OSError: it cannot be written to.
    """
    shown = uri_of(given) or given
    place = place_of(shown)
    if place.is_local:
        folder = Path(place.path)
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return shutil.disk_usage(folder).free
    if shown.partition(":")[0] in SCHEMES:
        check_conditional_writes(shown)
    else:
        probe = place.below(f".rayner-doctor-{secrets.token_hex(8)}")
        probe.write(b"")
        probe.delete()
    return None
