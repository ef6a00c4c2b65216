"""The documents of files that are read one after another, each id once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rayner.data.example_shards import content_hash
from rayner.data.readers import Reading, Reject, find_units, read_unit
from rayner.data.readers.merge import TWICE
from rayner.data.schema import Document
from rayner.runtime.progress import track


class Distinct:
    """Of documents with one id the first one counts, as in a corpus that is converted.

    `duplicates` counts the same document again; another one of its id is among the `rejects`, with all that
    the files were not read of.
    """

    def __init__(self, paths: Sequence[Path], label: str, format: str = "auto") -> None:
        self._units = find_units([Path(path).absolute() for path in paths], format)
        self._label = label
        self.rejects: list[Reject] = []
        self.duplicates = 0
        self._seen: dict[str, tuple[bytes, str]] = {}

    @property
    def ids(self) -> list[str]:
        """Those of the documents that counted so far, in order."""
        return list(self._seen)

    def __iter__(self) -> Iterator[Document]:
        for unit in track(self._units, len(self._units), self._label):
            yield from self._of(read_unit(unit))

    def _of(self, reading: Reading) -> Iterator[Document]:
        """The documents of a file that count."""
        self.rejects += reading.rejects
        self.duplicates += reading.repaired[TWICE]
        for document, where in zip(reading.documents, map(str, reading.places), strict=True):
            name = document.document_id
            digest = content_hash(document)
            if name not in self._seen:
                self._seen[name] = digest, where
                yield document
            elif self._seen[name][0] == digest:
                self.duplicates += 1
            else:
                what = f"document {name!r} differs from the one at {self._seen[name][1]}"
                self.rejects.append(Reject(where, what, "give each document an id of its own", name))
