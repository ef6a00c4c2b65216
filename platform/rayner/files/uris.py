"""URIs where paths are taken: `s3://BUCKET/FOLDER`, also after pathlib had it in its hands."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from rayner.errors import InputError

_SCHEMES = "s3|gs|gcs|abfss?|az|hdfs|viewfs|hf|memory"
_IN_A_PATH = re.compile(rf"(?:.*/)?({_SCHEMES}):/+(.+)", re.DOTALL)
# What is before a URI is looked for at the beginning of a word: a long one would take its square.
_SHOWN = re.compile(rf"(?:(?<![^\s'\"])[^\s'\"]*/)?\b({_SCHEMES}):/(?=[^/])")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+([^/?#]*)(.*)", re.DOTALL)
_FILE = re.compile(r"file:/+(?:localhost/)?")
# `auth` and the like as words: `author` holds no secret.
_SECRET = re.compile(
    r"[?&;]([^=&;]*(key|secret|token|passw|sig|credential|authorization)[^=&;]*"
    r"|([^=&;]*[_.-])?(o?auth|sas|pwd|pass|jwt)([_.-][^=&;]*)?)=",
    re.IGNORECASE,
)
_KEYS_ONLY = ("s3", "gs", "gcs")
_WITH_USERS = (
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "adl",
    "az",
    "hdfs",
    "viewfs",
    "ftp",
    "ftps",
    "sftp",
    "ssh",
    "smb",
    "webhdfs",
    "swebhdfs",
    "file",
)
"""Before the `@` is a container, the name of a user or a folder's there, which no password is."""
_BARE_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_OF_URIS = "%/:?&=@+,;!$'()*[]"


def uri_of(path: str | os.PathLike[str]) -> str | None:
    """The URI that a path was written as; None for a local one.

    `pathlib` makes one slash of two and puts a folder before what it takes for a relative path; of the URIs
    of object storage nothing is lost by that.

    Raises:
        InputError: the URI holds credentials, options, or a part that is empty, `.` or `..`.
    """
    text = os.fspath(path)
    found = _IN_A_PATH.fullmatch(text)
    # What was written as a URI is none of a folder `s3:` that lies here.
    if found is None or (f"{found[1]}://" not in text and os.path.exists(text)):
        return None
    uri = f"{found[1]}://{found[2]}"
    check_uri(uri)
    parts = unquote(found[2]).removesuffix("/").split("/")
    if {".", ".."} & set(parts):
        raise InputError(uri, "has a part that is `.` or `..`", "name the place itself")
    if "" in parts:
        raise InputError(uri, "has an empty part", "write one slash between two names, not as %2F")
    if "?" in uri:
        hint = "give them by the environment, such as AWS_ENDPOINT_URL and AWS_REGION"
        raise InputError(uri.partition("?")[0], "has options after a question mark", hint)
    return uri


def unwritable_scheme(text: str) -> str | None:
    """The scheme of a URI at which nothing can be written; None of a path, and of other URIs."""
    scheme, is_uri, _ = text.partition("://")
    return scheme if is_uri and uri_of(text) is None else None


def written_to(variable: str) -> str | None:
    """The folder or URI to write to that an environment variable names; None where it is not set.

    Raises:
        InputError: a URI at which nothing can be written, or one with credentials.
    """
    text = os.path.expanduser(os.environ.get(variable, ""))
    if (scheme := unwritable_scheme(text)) is not None:
        check_uri(text)
        what = f"{scheme}:// cannot be written to"
        raise InputError(f"{variable}={text}", what, "name a local folder, or s3://BUCKET/FOLDER")
    return text or None


def without_file_scheme(path: str | os.PathLike[str]) -> str:
    """The path of a `file:///` URI; anything else as it is."""
    text = os.fspath(path)
    found = _FILE.match(text)
    return f"/{unquote(text[found.end() :])}" if found else text


def expanded(path: str) -> str:
    """A path or a URI as a recipe names it, with its variables, `~` and `file:///` put in."""
    return os.path.expanduser(os.path.expandvars(without_file_scheme(path)))


def unset_variable(path: str) -> str | None:
    """The first variable in it that `expanded` has left, as it is not set."""
    found = re.search(r"\$(\{\w+\}|\w+)", path)
    return found[1].strip("{}") if found else None


def quoted(uri: str) -> str:
    """The URI with each character percent-encoded that none can hold; `#` too: none has a fragment here."""
    return quote(_BARE_PERCENT.sub("%25", uri), safe=_OF_URIS)


def with_uris(text: str) -> str:
    """A message, in which paths that stand for URIs are written as such."""
    return _SHOWN.sub(r"\1://", text)


def tell_of_uris(one: Any) -> None:
    """Have `where` and `what` of a frozen object name URIs: who reads of what was fetched knows no others."""
    for name in ("where", "what"):
        object.__setattr__(one, name, with_uris(getattr(one, name)))


def check_uri(text: str) -> None:
    """Refuse a URI with credentials; what the error shows of it has none.

    Raises:
        InputError: it has some.
    """
    found = _URI.match(text)
    if found is None:
        return
    scheme, authority, rest = found.groups()
    user, at, _ = authority.rpartition("@")
    # A secret key may hold a slash: then no `@` is before it.
    in_buckets = scheme.lower() in _KEYS_ONLY and ":" in authority and not authority.startswith("arn:")
    is_secret = ":" in user or scheme.lower() not in _WITH_USERS
    if in_buckets or (at and is_secret) or _SECRET.search(text):
        shown = f"{scheme}://{_harmless(authority + rest)}"
        hint = "leave them out, and give them by the environment or the machine's role"
        raise InputError(shown, "the URI holds credentials", hint)


def _harmless(place: str) -> str:
    place = re.split("[?&;]", place, maxsplit=1)[0]
    if "@" in place:
        return place.rpartition("@")[2]
    return "..." if ":" in place.partition("/")[0] else place


def check_name(path: str) -> None:
    """Refuse a path that no file of ours can hold.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode(errors="backslashreplace").decode()
        raise InputError(shown, "the name is not UTF-8", "rename it") from None


def check_uris(values: Any) -> None:
    """`check_uri` of every text in plain values.

    Raises:
        InputError: one of them has credentials.
    """
    # A list may hold itself, or the same list many times, by the aliases of YAML: each is looked at once.
    seen: set[int] = set()
    left = [values]
    for value in left:
        if isinstance(value, str):
            check_uri(value)
        elif isinstance(value, (Mapping, Sequence)) and id(value) not in seen:
            seen.add(id(value))
            left += value
            if isinstance(value, Mapping):
                left += value.values()
