"""Files that are named after documents."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from rayner.data.writers.base import Written
from rayner.files.whole import text_file

MAX_BYTES = 200

_UNSAFE = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|%]|^[._]')


def file_name(document_id: str, written: Written) -> str:
    """A name that any file system takes; ids that had to change for it are counted."""
    name = _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", document_id)
    if len(name.encode()) > MAX_BYTES:
        digest = hashlib.blake2b(document_id.encode(), digest_size=8).hexdigest()
        name = name.encode()[: MAX_BYTES - 20].decode(errors="ignore") + "-" + digest
    written.drop("document_id (changed to be a file's name)", name != document_id)
    return name


def write_text(path: Path, text: str) -> None:
    """Write a text as it is; one that begins with a byte-order mark gets another, for readers take one."""
    with text_file(path) as file:
        file.write("\ufeff" + text if text.startswith("\ufeff") else text)
