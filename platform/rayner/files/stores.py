"""Object storage as obstore sees it: credentials, retries, and whether writes keep to their conditions."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any

from rayner.errors import InputError, RaynerError, first_line
from rayner.files.fetching import storage_failure
from rayner.files.uris import check_uri, quoted

SCHEMES = ("s3", "gs", "az", "abfs", "abfss")
"""Of storage that has conditional writes."""


def check_conditional_writes(uri: str) -> None:
    """Find out whether the storage at a URI keeps two processes apart; two small objects come and go.

    Raises:
        InputError: it does not, or may not be written to.
        StorageError: it does not answer.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError

    store, name = store_at(uri.rstrip("/")), f".rayner-{secrets.token_hex(8)}"
    try:
        obstore.put(store, name, b"1", mode="create")
        try:
            obstore.put(store, name, b"2", mode="create")
        except AlreadyExistsError:
            return
        finally:
            obstore.delete(store, [name])
    except Exception as error:
        raise storage_failure(uri, error, "cannot be written to") from None
    what = "ignores the conditions of writes (If-None-Match), which keep two processes apart"
    raise InputError(uri, what, "update the server, or name a folder that all machines see")


def store_at(uri: str) -> Any:
    """What obstore reads and writes below a URI, with credentials of the environment or the machine's role.

    Raises:
        InputError: the URI holds credentials, there are none, or it leads to no place that is written to.
    """
    from obstore.store import from_url

    check_uri(uri)
    given = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    has_no_role = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if uri.startswith("s3:") and has_no_role and not any(os.environ.get(name) for name in given):
        raise storage_failure(uri, RaynerError("no credentials"))
    retry: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=60)}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3", os.environ.get("AWS_ENDPOINT_URL", ""))
    options: Any = {"allow_http": endpoint.startswith("http://"), "connect_timeout": "5s", "timeout": "60s"}
    region: Any = _region(uri)
    try:
        return from_url(quoted(uri), client_options=options, retry_config=retry, **region)
    except Exception as error:
        failure = storage_failure(uri, error)
        if isinstance(failure, InputError):
            raise failure from None
        # No request was made that another try might answer.
        what = f"is no URI that can be written to ({first_line(error)[:200]})"
        hint = "correct it, or give by the environment what it needs, such as AZURE_STORAGE_ACCOUNT_NAME"
        raise InputError(uri, what, hint) from None


def _region(uri: str) -> dict[str, str]:
    """The region of an S3 bucket, where the environment names none; empty where it cannot be found out.

    Obstore, where it is told none, takes us-east-1, and S3 answers writes to other regions with 301.
    """
    named = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
    if not uri.startswith("s3:") or any(os.environ.get(name) for name in named):
        return {}
    region = _region_of(uri.split("/")[2])
    return {"region": region} if region else {}


@cache
def _region_of(bucket: str) -> str | None:
    from pyarrow.fs import resolve_s3_region

    # What cannot be found takes seconds each time.
    with suppress(OSError, ValueError):
        return resolve_s3_region(bucket)
    return None
