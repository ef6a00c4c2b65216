"""What lies at the URI of a folder that was put in place whole: a manifest, and the objects that it names.

`URI/_manifest.json` says of each file its object, size and SHA-256, and who writes there. The objects lie in
`URI/_objects/`, where no name is used twice: a reader that goes by a manifest sees one state of the folder.
Below `URI/_objects/parts/` lie such folders themselves: what several machines have made of it so far.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rayner.errors import InputError
from rayner.files.places import Place

MANIFEST = "_manifest.json"
OBJECTS = "_objects"
PARTS = f"{OBJECTS}/parts"
FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
REFUSED = re.compile(
    r"ACCESS_DENIED|AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|status(?: code:)? 40[13]\b"
)
"""How Arrow and obstore tell that access is denied."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: its object below the URI, its bytes, and their SHA-256 in hexadecimal."""

    object: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a folder. `write` is another one for each state; `owner` and `who` tell who may write.

    `attempt` grows from one process of an owner to the next: an earlier one may not write again.
    """

    write: str
    owner: str
    who: str
    attempt: int = 0
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
        if version == FORMAT and all(_is_inside(name) and _is_sound(e) for name, e in files.items()):
            return Manifest(**values, files=files)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise InputError(where, "is no manifest of this version of rayner", "write the folder again")


def _is_inside(name: str) -> bool:
    return bool(name) and not name.startswith("/") and ".." not in name.split("/")


def _is_sound(entry: Entry) -> bool:
    """Whether its content is named by a digest: by that name it is kept on each machine."""
    in_objects = entry.object.startswith(f"{OBJECTS}/") and _is_inside(entry.object)
    return in_objects and type(entry.size) is int and bool(_DIGEST.fullmatch(entry.sha256))


def is_of_part(name: str) -> bool:
    """Whether the object of this name was put there for a part."""
    return name.startswith(f"{PARTS}/")


def new_object(write: str, number: int, name: str) -> str:
    """The name of a new object, for a file of this name."""
    return f"{OBJECTS}/{write}/{number:05d}-{_UNSAFE.sub('_', name)}"


def key_of(entries: Mapping[str, Entry]) -> str:
    """The name of the content of these files."""
    content = [[name, entry.size, entry.sha256] for name, entry in sorted(entries.items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _is_of_rayner(data: bytes) -> bool:
    """Whether a file of that name is a manifest, be it of another version: others have such files, too."""
    try:
        return {"format", "write", "files"} <= json.loads(data).keys()
    except (ValueError, AttributeError):
        return False


def find_manifest(place: Place) -> tuple[Place, Manifest, str] | None:
    """The folder that a place is or lies in, its manifest, and the way from there; None where none is whole.

    Raises:
        InputError: what lies there is no manifest.
    """
    parts = place.path.strip("/").split("/")
    for length in range(len(parts), 0, -1):
        folder = place.at("/".join(parts[:length]))
        try:
            data = folder.below(MANIFEST).read()
        except OSError as error:
            if length < len(parts) and REFUSED.search(str(error)):
                # Who may read a folder may not look into those above it.
                return None
            raise
        if data is not None:
            rest = "/".join(parts[length:])
            if rest and not _is_of_rayner(data):
                continue
            return folder, decode(data, folder.below(MANIFEST).shown), rest
    return None
