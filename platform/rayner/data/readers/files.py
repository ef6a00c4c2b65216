"""Text from files: UTF-8, gzip, byte-order marks, lines."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rayner.data.readers.base import FileUnit, Reading, Sample
from rayner.errors import CorpusError, FileError, storage_error
from rayner.files.fetching import local

SAMPLE_BYTES = 1 << 16
_ZIP = b"PK\x03\x04"
_TAR, _TAR_AT = b"ustar", 257
_PARQUET = b"PAR1"
_PACKED = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "xz": re.compile(rb"\xfd7zXZ"),
    "bzip2": re.compile(rb"BZh[1-9]1AY&SY"),
}
"""How packed files begin."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
FROM_UTF_16 = "convert it: iconv -f utf-16 -t utf-8"
NOT_GIVEN = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""What the system says of a file that the user has to name otherwise, or make readable."""
PART_BYTES = 8 * 2**20
"""Of a large file, what is read at once."""


def read_bytes(path: str | Path) -> bytes:
    """The content of a file, unpacked where its name ends in .gz.

    Raises:
        CorpusError: a broken gzip file.
        FileError: the file cannot be read.
    """
    path = local(path)
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if is_packed(path) else data
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise CorpusError(str(path), f"a broken gzip file ({error})", "pack it again") from None
    except NOT_GIVEN as error:
        raise unreadable(path, error) from None
    except OSError as error:
        # The system's own error of a read does not say of which file.
        error.filename = str(path)
        raise


def is_packed(path: str | Path) -> bool:
    """Whether a file is unpacked with gzip as it is read, by its name."""
    return str(path).lower().endswith(".gz")


def is_fault(error: BaseException) -> bool:
    """Whether an error says nothing of a file's content: no memory, or a system that cannot read it.

    What gzip, zlib and Arrow cannot decode they report without an `errno`, Arrow also as a plain `OSError`
    (a damaged page); an error of the operating system (EIO, ESTALE, EMFILE) has one. Arrow's errors of object
    stores have none either: who reads from there notes them where the bytes are read.
    """
    return isinstance(error, MemoryError) or getattr(error, "errno", None) is not None


def read_span(path: str | Path, span: tuple[int, int]) -> bytes:
    """Bytes of a file, from the first to before the second.

    Raises:
        FileError: the file cannot be read, or ends before that.
    """
    begin, end = span
    try:
        with local(path).open("rb") as file:
            file.seek(begin)
            data = file.read(end - begin)
    except NOT_GIVEN as error:
        raise unreadable(path, error) from None
    except OSError as error:
        error.filename = str(path)
        raise
    if len(data) < end - begin:
        raise FileError(str(path), "changed while it was read", "start again")
    return data


def unreadable(path: str | Path, error: OSError) -> FileError:
    """The error of a file that the system does not give."""
    return FileError(str(path), error.strerror or str(error), "name a file that can be read")


def size_of(path: str | Path) -> int:
    """The bytes of a file.

    Raises:
        FileError: it is not there, or cannot be asked.
    """
    try:
        return local(path).stat().st_size
    except OSError as error:
        raise unreadable(path, error) from None


def read_text(path: str | Path, reading: Reading, *, may_be_empty: bool = False) -> str:
    """The text of a UTF-8 file, line ends as they stand; a byte-order mark is removed and counted."""
    data = read_bytes(path)
    if not data and not may_be_empty:
        raise CorpusError(str(path), "an empty file", "remove it, or restore its content")
    return without_mark(decode(data, path), reading.repaired)


def text_lines(data: bytes, path: str | Path, reading: Reading, before: int = 0) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; one that is not UTF-8 is rejected, a byte-order mark removed and counted.

    Args:
        before: the lines of the file before the data.

    Raises:
        CorpusError: nothing of it is UTF-8, but UTF-16, packed or binary.
    """
    try:
        text = decode(data, path, before)
    except CorpusError:
        if _is_utf_16(data) or _unpacking(data):
            raise
        text = data.decode(errors="surrogateescape")
    text = text if before else without_mark(text, reading.repaired)
    for number, line in enumerate(split_lines(text), before + 1):
        try:
            line.encode()
        except UnicodeEncodeError as error:
            what = f"byte 0x{ord(line[error.start]) & 0xFF:02x} is not UTF-8"
            reading.reject(f"{path}:{number}", what, encoding_hint(b""))
        else:
            yield number, line


def without_mark(text: str, repaired: Counter[str]) -> str:
    """The text less a byte-order mark, which is counted."""
    if text.startswith("\ufeff"):
        repaired["byte-order mark removed"] += 1
        return text[1:]
    return text


def decode(data: bytes, path: str | Path, before: int = 0) -> str:
    """UTF-8 as text; anything else is an error that names the line. A stray NUL is text.

    Args:
        before: the lines of the file before the data.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = before + data.count(b"\n", 0, error.start) + 1
        raise CorpusError(f"{path}:{line}", *not_utf8(error)) from None
    if _full_of_nul(data):
        line = before + text.count("\n", 0, text.index("\0")) + 1
        raise CorpusError(f"{path}:{line}", "NUL characters all over: binary, or UTF-16", encoding_hint(data))
    return text


def split_lines(text: str) -> list[str]:
    """Lines without their ends (LF or CRLF, and CR in a file without LF); other characters that Unicode calls
    line ends stay inside."""
    lines = text.split("\n" if "\n" in text else "\r")
    if lines and not lines[-1]:
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


def sample(path: Path, size: int = SAMPLE_BYTES) -> Sample:
    """The lines in the first bytes of a file, whatever its encoding; none of a file that is not given.

    Raises:
        StorageError: it cannot be read now.
    """
    try:
        with gzip.open(path) if is_packed(path) else path.open("rb") as file:
            data = file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        given = not isinstance(error, NOT_GIVEN)
        if given and (failure := storage_error(str(path), "cannot be read", error)):
            raise failure from error
        return Sample(path, ())
    text = data.decode(errors="replace").removeprefix("\ufeff")
    lines = split_lines(text)
    return Sample(path, tuple(lines[:-1] if len(data) == size and len(lines) > 1 else lines))


def suffix(path: Path) -> str:
    """The suffix of a file in lower case, a .gz after it left out."""
    return _stem_and_suffix(path.name)[1].lower()


def stem(path: Path) -> str:
    """The name of a file without its suffix, and without .gz."""
    return _stem_and_suffix(path.name)[0]


def _stem_and_suffix(name: str) -> tuple[str, str]:
    """As pathlib has them, without making a path for each of a million files."""
    name = name[: -len(".gz")] if name.lower().endswith(".gz") else name
    point = name.rfind(".")
    return (name[:point], name[point:]) if 0 < point < len(name) - 1 else (name, "")


def each_file(format: str, paths: Sequence[Path]) -> list[FileUnit]:
    """One unit a file, named by its stem, or by its path below the common folder where stems repeat."""
    return [FileUnit(format, (str(p),), name) for p, name in zip(paths, names(paths), strict=True)]


def names(paths: Sequence[Path]) -> list[str]:
    """A name for each file: its stem where all differ, otherwise its path below what they share."""
    stems = [stem(path) for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    folders = [path.absolute().parent.parts for path in paths]
    shared = 0
    while len({folder[: shared + 1] for folder in folders}) == 1 and shared < min(map(len, folders)):
        shared += 1
    below = ["/".join((*f[shared:], s)) for f, s in zip(folders, stems, strict=True)]
    if len(set(below)) == len(below):
        return below
    return ["/".join((*f[shared:], p.name)) for f, p in zip(folders, paths, strict=True)]


def not_utf8(error: UnicodeDecodeError) -> tuple[str, str]:
    """What is wrong with the bytes that an error is about, and the hint."""
    return f"byte 0x{error.object[error.start]:02x} is not UTF-8", encoding_hint(error.object)


def encoding_hint(data: bytes) -> str:
    """The hint of what is not UTF-8: how to convert it."""
    if data.startswith(_ZIP):
        return "it is a ZIP archive, as spreadsheets are: save the table as CSV, or unpack the archive"
    if packed := _unpacking(data):
        return packed
    if _is_utf_16(data):
        return FROM_UTF_16
    return "convert it to UTF-8, for example with iconv -f latin1 -t utf-8"


def hint_by_first_bytes(path: Path) -> str | None:
    """What to do about a file that begins as UTF-16, is an archive, or is not packed as its name says."""
    try:
        with path.open("rb") as file:
            begin = file.read(10)
        with gzip.open(path) if _PACKED["gzip"].match(begin) else path.open("rb") as file:
            inside = file.read(_TAR_AT + len(_TAR))
    except (OSError, EOFError, zlib.error):
        return None
    if begin[:2] in _UTF_16:
        return FROM_UTF_16
    if inside.startswith(_ZIP) or inside.endswith(_TAR):
        return "it is an archive of files: unpack it, and name the folder"
    if is_packed(path):
        return "it is a packed Parquet file: unpack it" if inside.startswith(_PARQUET) else None
    return _unpacking(begin)


def _unpacking(data: bytes) -> str | None:
    kind = next((kind for kind, begin in _PACKED.items() if begin.match(data)), None)
    hint = "let its name end in .gz" if kind == "gzip" else "unpack it, or pack it as .gz"
    return kind and f"it is packed with {kind}: {hint}"


def _is_utf_16(data: bytes) -> bool:
    return data[:2] in _UTF_16 or _full_of_nul(data)


def _full_of_nul(data: bytes) -> bool:
    start = data[:200]
    return start.count(b"\0") > len(start) // 4
