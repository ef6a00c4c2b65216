"""What is wrong with storage, or with what lies in it, is told in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import obstore
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from rayner.errors import InputError, RaynerError, StorageError
from rayner.files import tries
from rayner.files.fetching import is_there, local, storage_failure
from rayner.files.publishing import Publication
from rayner.files.stores import store_at
from tests.files.folders_at_uris import published, read, uri, write
from tests.object_storage import BUCKET, Storage


def one_line(error: RaynerError) -> str:
    text = str(error)
    assert "\n" not in text
    return text


def test_an_object_that_is_gone(storage: Storage) -> None:
    publication = published("gone", {"a.txt": "one"})
    [key] = storage.objects("gone/_objects")
    obstore.delete(storage.store(), [key])
    with pytest.raises(
        InputError, match=r"its manifest names an object that is gone \(s3://tests/gone/_obj"
    ) as e:
        local(publication.uri)
    one_line(e.value)


def test_an_object_of_other_content(storage: Storage) -> None:
    publication = published("changed", {"a.txt": "one"})
    [key] = storage.objects("changed/_objects")
    obstore.put(storage.store(), key, b"two")
    with pytest.raises(StorageError, match="not the 3 of its manifest"):
        local(publication.uri)


def manifest(name: str = "x", object: str = "_objects/a/x", size: Any = 1, sha256: str = "0" * 64) -> bytes:
    files = {name: {"object": object, "size": size, "sha256": sha256}}
    about = {"format": 1, "write": "w", "owner": "o", "who": "somebody", "files": files}
    return json.dumps(about).encode()


def test_a_manifest_as_it_should_be(storage: Storage) -> None:
    """What the ones below differ from in one thing each."""
    obstore.put(storage.store(), "sound/_manifest.json", manifest())
    with pytest.raises(InputError, match="an object that is gone"):
        local(uri("sound"))


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"format": 7}',
        manifest(name="../x"),
        manifest(name="/x"),
        manifest(object="../x"),
        manifest(object="_objects/../../x"),
        manifest(size="1"),
        manifest(sha256="of abcdef0/../../../../x"),
        manifest(sha256="of " + "0" * 64),
        manifest(sha256="0" * 63),
    ],
)
def test_what_is_no_manifest(storage: Storage, content: bytes) -> None:
    obstore.put(storage.store(), "strange/_manifest.json", content)
    for use in (lambda: local(uri("strange")), lambda: Publication(uri("strange")).open()):
        with pytest.raises(InputError, match="is no manifest"):
            use()


def test_a_bucket_that_is_missing(storage: Storage) -> None:
    for use in (lambda: local("s3://nowhere/x"), lambda: Publication("s3://nowhere/x").open()):
        with pytest.raises(InputError, match="s3://nowhere/x: there is no such bucket") as caught:
            use()
        one_line(caught.value)
    with pytest.raises(InputError, match="no such file or folder"):
        local(uri("none"))


def test_no_rights(storage: Storage) -> None:
    storage.fault = lambda method, path: "403"
    for use in (lambda: local(uri("secret")), lambda: Publication(uri("secret")).open()):
        with pytest.raises(InputError, match="s3://tests/secret: access is denied") as caught:
            use()
        one_line(caught.value)


def test_who_may_read_a_folder_need_not_read_those_above(storage: Storage) -> None:
    obstore.put(storage.store(), "team/corpus/a.txt", b"one")
    storage.fault = lambda method, path: "403" if "corpus" not in path else None
    assert read(local(uri("team/corpus"))) == {"a.txt": "one"}


def test_no_credentials(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(InputError, match="no credentials were found"):
        Publication(uri("x"))


def without_credentials(monkeypatch: pytest.MonkeyPatch, does: str, times: int) -> Callable[[], int]:
    """Let a call of obstore find no credentials so many times; returns how many of these are left."""
    call, left = getattr(obstore, does), times

    def called(*arguments: Any, **settings: Any) -> Any:
        nonlocal left
        if left > 0:
            left -= 1
            raise OSError("Error getting credentials from http://169.254.169.254/latest")
        return call(*arguments, **settings)

    monkeypatch.setattr(obstore, does, called)
    return lambda: left


def test_credentials_that_are_away_for_a_while_are_waited_for(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = published("away")
    left = without_credentials(monkeypatch, "put", 2)
    write(publication.folder, {"a.txt": "another"})
    publication.push()
    assert left() == 0
    assert local(uri("away/a.txt")).read_text() == "another"


def test_a_new_worker_waits_for_credentials_that_its_driver_has(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = published("away-on-worker")
    left = without_credentials(monkeypatch, "get", 2)
    Publication(driver.uri, driver.owner, 1).open()
    assert left() == 0
    without_credentials(monkeypatch, "get", 1000)
    with pytest.raises(StorageError, match=r"give this machine a role, or AWS_ACCESS_KEY_ID .*again$"):
        Publication(driver.uri, driver.owner, 2).open()
    with pytest.raises(InputError, match="no credentials were found"):
        Publication(driver.uri).open()


@pytest.mark.parametrize(
    "given",
    [
        "s3://AKID:verysecret@tests/x",
        "s3://AKID@tests/x",
        "s3://AKID:very/verysecret@tests/x",
        "s3://AKID:verysecret/x",
        "s3://tests/x?aws_secret_access_key=verysecret",
        "abfs://user:verysecret@account/x",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(given: str) -> None:
    for use in (lambda: local(given), lambda: local(Path(given).absolute()), lambda: is_there(given)):
        with pytest.raises(InputError, match="holds credentials") as caught:
            use()
        assert "verysecret" not in str(caught.value)
        assert "AKID" not in str(caught.value)


class HostIsUnknown(Exception):
    """As httpx's, which is no OSError."""


def test_errors_of_a_package_of_fsspec_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise HostIsUnknown("Name or service not known")

    monkeypatch.setattr(tries, "PAUSE", 0)
    monkeypatch.setattr(MemoryFileSystem, "info", fail)
    with pytest.raises(StorageError, match=r"memory://x/y: cannot be read \(Name or service not known\)"):
        local("memory://x/y")


def test_paths_of_this_machine_stay_what_they_are(tmp_path: Path) -> None:
    odd = tmp_path / "s3:" / "x"
    odd.mkdir(parents=True)
    assert local(odd) == odd
    assert local("plain/path") == Path("plain/path")
    with pytest.raises(InputError, match="has no conditional writes"):
        Publication("memory://x/y")
    with pytest.raises(InputError, match="AWS_ENDPOINT_URL"):
        local("s3://tests/x?region=eu-west-1")


def test_a_uri_at_which_nothing_can_be_written_is_to_be_corrected(storage: Storage) -> None:
    with pytest.raises(InputError, match=r"is no URI that can be written to \(.*\); correct it") as raised:
        store_at("s3://tests/a//b")
    assert raised.value.where == "s3://tests/a//b"


def test_a_bucket_is_asked_once_for_its_region_if_nothing_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def region(bucket: str) -> str:
        asked.append(bucket)
        if bucket == "nowhere":
            raise OSError("could not resolve the host")
        return "eu-west-1"

    monkeypatch.setattr("pyarrow.fs.resolve_s3_region", region)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for _ in range(2):
        assert store_at("s3://of-ireland/x").config["region"] == "eu-west-1"
        assert "region" not in store_at("s3://nowhere/x").config
    store_at("gs://of-ireland/x")
    assert asked == ["of-ireland", "nowhere"]
    for name, value in (("AWS_ENDPOINT_URL", "http://127.0.0.1:1"), ("AWS_DEFAULT_REGION", "eu-north-1")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert "region" not in store_at("s3://another/x").config
    assert asked == ["of-ireland", "nowhere"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject operation", "access is denied"),
        ("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation: No response body.", "denied"),
        ("Server returned non-2xx status code: 401 Unauthorized", "access is denied"),
        ("Error performing PUT in 348.643403ms - Server returned non-2xx status code: 503", "cannot be read"),
        ("Error getting credentials from http://169.254.169.254/latest", "no credentials were found"),
    ],
)
def test_what_storage_says_in_one_line(text: str, what: str) -> None:
    error = storage_failure(uri("x"), OSError(text + "\n<Error>more</Error>"))
    assert what in one_line(error)
    assert isinstance(error, StorageError) == (what == "cannot be read")


def test_objects_that_are_no_files_of_one_folder(storage: Storage) -> None:
    # Obstore and Arrow put no objects of such names.
    objects = boto3.client("s3")
    keys = [f"odd/{name}" for name in ("both/x", "both/x/y", "gap//x", "up/../x")]
    for key in keys:
        objects.put_object(Bucket=BUCKET, Key=key, Body=b"Ada")
    for folder, what in (
        ("both", r"both/x: objects lie below this object"),
        ("gap", r"gap//x: the name of this object is no path"),
        ("up", r"up/\.\./x: the name of this object is no path"),
    ):
        with pytest.raises(InputError, match=f"s3://{BUCKET}/odd/{what}; rename it"):
            local(f"s3://{BUCKET}/odd/{folder}")
    assert local(f"s3://{BUCKET}/odd/both/x").read_bytes() == b"Ada"
    for key in keys:
        objects.delete_object(Bucket=BUCKET, Key=key)
