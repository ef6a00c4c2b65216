"""Files on any storage: whole or not at all, also when their writer is interrupted."""

from __future__ import annotations

import os
import signal

import pytest

from rayner.files.places import place_of
from tests.object_storage import BUCKET, Fault, Storage


def test_an_interrupted_upload_leaves_no_part_of_a_file(storage: Storage) -> None:
    place = place_of(f"s3://{BUCKET}/interrupted/x.bin")
    # More than Arrow uploads as one part.
    data = os.urandom(1 << 20) * 24
    interrupted = False

    def interrupt_once(method: str, path: str) -> Fault | None:
        nonlocal interrupted
        if method == "POST" and not interrupted:
            interrupted = True
            os.kill(os.getpid(), signal.SIGINT)
        return None

    storage.fault = interrupt_once
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            place.write(data)
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted
    assert place.read() == data
