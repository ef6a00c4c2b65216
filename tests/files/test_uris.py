"""URIs in messages."""

from __future__ import annotations

import time

import pytest

from rayner.files.uris import with_uris


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/a/s3:/b/c.txt: gone", "s3://b/c.txt: gone"),
        ("see '/home/a/s3:/b' and gs:/c/d", "see 's3://b' and gs://c/d"),
        ("(s3:/b)", "(s3://b)"),
        ("s3://b/c, and /home/a", "s3://b/c, and /home/a"),
        ("as3:/b", "as3:/b"),
    ],
)
def test_paths_that_stand_for_uris_are_written_as_such(text: str, shown: str) -> None:
    assert with_uris(text) == shown


@pytest.mark.parametrize("piece", ["x", "/", "s3:", "a/"])
def test_a_long_word_of_a_message_takes_no_square_of_its_length(piece: str) -> None:
    long = piece * (60_000 // len(piece))
    begun = time.monotonic()
    assert with_uris(f"document '{long}' is there twice") == f"document '{long}' is there twice"
    # Far more than its length takes, and far less than its square.
    assert time.monotonic() - begun < 10
