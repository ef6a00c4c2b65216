"""What lies at the URI of a folder that was put in place whole: a manifest, and the objects that it names.

`URI/_manifest.json` says of each file its object, size and SHA-256, and who writes there. The objects lie in
`URI/_objects/`, where no name is used twice: a reader that goes by a manifest sees one state of the folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rayner.errors import InputError
from rayner.files.places import Place

MANIFEST = "_manifest.json"
OBJECTS = "_objects"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: its object below the URI, its bytes, and their SHA-256 in hexadecimal."""

    object: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a folder. `write` is another one for each state; `owner` and `who` tell who may write."""

    write: str
    owner: str
    who: str
    files: Mapping[str, Entry] = field(default_factory=dict)

    def encode(self) -> bytes:
        """As JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, ensure_ascii=False).encode()

    def below(self, folder: str) -> dict[str, Entry]:
        """The files of a folder of this one, or the one file, by their paths from there."""
        if not folder:
            return dict(self.files)
        if folder in self.files:
            return {folder.rpartition("/")[2]: self.files[folder]}
        start = folder + "/"
        return {name.removeprefix(start): e for name, e in self.files.items() if name.startswith(start)}


def decode(data: bytes, where: str) -> Manifest:
    """The manifest in a file.

    Raises:
        InputError: it is none, or one of another version.
    """
    try:
        values: dict[str, Any] = json.loads(data)
        version = values.pop("format")
        files = {name: Entry(**entry) for name, entry in values.pop("files").items()}
        if version == FORMAT and not any(name.startswith("/") or ".." in name.split("/") for name in files):
            return Manifest(**values, files=files)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(where, "is no manifest of this version of rayner", "write the folder again")


def key_of(entries: Mapping[str, Entry]) -> str:
    """The name of the content of these files."""
    content = [[name, entry.size, entry.sha256] for name, entry in sorted(entries.items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def find_manifest(place: Place) -> tuple[Place, Manifest, str] | None:
    """The folder that a place is or lies in, its manifest, and the way from there; None where none is whole.

    Raises:
        InputError: what lies there is no manifest.
    """
    parts = place.path.strip("/").split("/")
    for length in range(len(parts), 0, -1):
        folder = place.at("/".join(parts[:length]))
        if (data := folder.below(MANIFEST).read()) is not None:
            rest = "/".join(parts[length:])
            return folder, decode(data, folder.below(MANIFEST).shown), rest
    return None
