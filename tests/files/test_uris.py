"""URIs in messages."""

from __future__ import annotations

import time

import pytest

from rayner.errors import InputError
from rayner.files.uris import check_uri, uri_of, with_uris


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


@pytest.mark.parametrize(
    "uri", ["s3://b/t/%2Fx.jsonl", "s3://b/a//c", "s3://b/a%2F/c", "s3://b//", "gs://b/a//"]
)
def test_a_uri_with_an_empty_part_is_refused(uri: str) -> None:
    with pytest.raises(InputError, match="has an empty part; write one slash between two names") as refused:
        uri_of(uri)
    assert refused.value.where == uri
    assert [uri_of(f"s3://{rest}") for rest in ("b/", "b/a/", "b/a%2Fc")] == [
        "s3://b/",
        "s3://b/a/",
        "s3://b/a%2Fc",
    ]


@pytest.mark.parametrize("piece", ["x", "/", "s3:", "a/"])
def test_a_long_word_of_a_message_takes_no_square_of_its_length(piece: str) -> None:
    long = piece * (60_000 // len(piece))
    begun = time.monotonic()
    assert with_uris(f"document '{long}' is there twice") == f"document '{long}' is there twice"
    # Far more than its length takes, and far less than its square.
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://SECRET@host/x", "https://host/x"),
        ("hf://SECRET@datasets/x", "hf://datasets/x"),
        ("gs://SECRET@bucket/x", "gs://bucket/x"),
        ("S3://KEY:SECRET/x", "S3://..."),
        ("abfs://container:SECRET@account/x", "abfs://account/x"),
        ("https://host/x?auth=SECRET", "https://host/x"),
        ("https://host/x?v=1&sas=SECRET", "https://host/x"),
        ("https://host/x?sas_part=SECRET", "https://host/x"),
        ("https://host/x?token=SECRET", "https://host/x"),
        ("https://host/x?v=1;sig=SECRET", "https://host/x"),
        ("https://host/x;token=SECRET", "https://host/x"),
        ("https://host/x?http-auth=SECRET", "https://host/x"),
    ],
)
def test_a_uri_with_a_secret_is_refused_without_it(text: str, shown: str) -> None:
    with pytest.raises(InputError, match="the URI holds credentials; leave them out") as refused:
        check_uri(text)
    assert refused.value.where == shown
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "abfss://container@account.dfs.core.windows.net/x",
        "abfs://container@account/x",
        "az://container@account/x",
        "hdfs://ada@namenode:8020/x",
        "sftp://ada@host/x",
        "webhdfs://ada@host:9870/x",
        "file:///data@2024/x",
        "https://host?author=a@b.org",
        "hf://datasets/owner/name@main/x",
        "https://host/@ada/x?author=ada&passage=3&sasl=1&v=a@b",
        "https://host:8080/x",
        "s3://arn:aws:s3:eu-central-1:1:accesspoint/a/x",
        "about: a@b",
    ],
)
def test_a_uri_without_a_secret_is_taken(text: str) -> None:
    assert check_uri(text) is None
