"""The objects below a URI: read, uploaded, listed and removed, and asked for again after faults that pass."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rayner.errors import first_line
from rayner.files.fetching import storage_failure
from rayner.files.stores import store_at
from rayner.files.tries import wait

log = logging.getLogger(__name__)


class Objects:
    """The objects below a URI.

    Args:
        worked: whether the storage has been used before; as of `storage_failure`.
    """

    def __init__(self, uri: str, worked: bool = False) -> None:
        self.store = store_at(uri)
        self.worked = worked
        self._uri = uri

    def read(self, name: str) -> tuple[bytes, Any]:
        """The content of an object, and what the storage says about it.

        Raises:
            FileNotFoundError: there is none.
            InputError, StorageError: the storage cannot be used.
        """
        import obstore

        def read() -> tuple[bytes, Any]:
            found = obstore.get(self.store, name)
            return bytes(found.bytes()), found.meta

        return self._repeated(read)

    def upload(self, path: Path, name: str) -> None:
        """Make an object of a file."""
        import obstore

        self._repeated(lambda: obstore.put(self.store, name, path))

    def names(self, prefix: str) -> list[str]:
        """The names of all objects below another one."""
        import obstore

        return self._repeated(lambda: [o["path"] for o in obstore.list(self.store, prefix=prefix).collect()])

    def remove(self, names: list[str]) -> None:
        """Remove objects that nobody goes by any more: what fails is told, and no error."""
        import obstore

        try:
            if names:
                obstore.delete(self.store, names)
        except Exception as error:
            log.warning("%s: what it replaced is not removed yet (%s)", self._uri, first_line(error))

    def _repeated(self, do: Callable[[], Any]) -> Any:
        for attempt in count(1):
            try:
                done = do()
            except Exception as error:
                failure = storage_failure(self._uri, error, "cannot be reached", self.worked)
                if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
                    raise
                wait(failure, attempt)
            else:
                self.worked = True
                return done
        raise AssertionError


def version_of(about: Mapping[str, Any]) -> dict[str, str]:
    """What a conditional write names: S3 and Azure go by the tag, Google by the version."""
    return {name: about[name] for name in ("e_tag", "version") if about.get(name) is not None}
