"""Blocks of rows, read from a shard as a stream: memory is that of a block, not of a file.

A block is a pure function of the files and of the block's size, whoever reads it and whenever.

What cannot be decoded is a reject: a line, a row, an encoding, the structure of a gzip or Parquet file.
What keeps the bytes from being read is a fault (`ReadFault`) and never a reject. The two are told apart by
where an error comes from, as Arrow raises `OSError` for both: what is raised where a file is opened or its
bytes are read (`_Bytes`) is a fault; what is raised above that is the content's, but for what `is_fault`
knows: errors of memory and those with an `errno`, as Arrow's errors of local files have.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rayner.data.readers.arrow_rows import row_of
from rayner.data.readers.base import Reject
from rayner.data.readers.files import is_fault, is_packed, not_utf8
from rayner.data.readers.parquet import missing_column
from rayner.data.schema import DOCUMENT_SCHEMA
from rayner.errors import first_line
from rayner.runtime.annotation.input_shards import Shard, Source
from rayner.runtime.faults import read_fault

LONGEST = 2**28
"""Bytes of the longest text or row that is read: what a worker holds must have a bound."""
ROWS_PER_BLOCK = 4096
_CHUNK = 2**20
_TOO_LONG = f"longer than {LONGEST >> 20} MiB"
_TO_CR = re.compile(rb"[^\r]*(?:\r|\Z)")
_BROKEN = (gzip.BadGzipFile, zlib.error, EOFError)


class Row(NamedTuple):
    """A document as it was found: where, the id if it has none, and a Parquet row, a text or a JSON line."""

    where: str
    name: str
    content: bytes | dict[str, Any]
    is_text: bool = False


@dataclass(slots=True)
class Block:
    """Rows that are annotated, and written, together.

    Attributes:
        parquet: in place of `rows`: rows of a Parquet file as an Arrow stream (a record batch that is a slice
            would be sent with all that it was cut from).
        source: with `parquet`: the file and its name.
        first, count: with `parquet`: the number of the first row, and how many there are.
        rejects: what cannot become a row; each counts as one document.
        consumed: bytes of files that were read for it.
    """

    rows: list[Row] = field(default_factory=list)
    parquet: bytes | None = None
    source: tuple[str, str] = ("", "")
    first: int = 0
    count: int = 0
    rejects: list[Reject] = field(default_factory=list)
    size: int = 0
    consumed: float = 0.0

    def __len__(self) -> int:
        return len(self.rows) + self.count + len(self.rejects)

    @property
    def where(self) -> str:
        """The place of its first row, or of what could not become one."""
        if self.parquet is not None:
            return f"{self.source[0]}:row {self.first}"
        return next((found.where for found in (*self.rows, *self.rejects)), "no file")

    def all_rows(self) -> Iterator[Row | Reject]:
        """The rows, one by one, and what cannot become one."""
        yield from self.rejects
        yield from self.rows
        if self.parquet is None:
            return
        place, name = self.source
        table = pa.ipc.open_stream(self.parquet).read_all()
        for index in range(table.num_rows):
            number = self.first + index
            where, row = f"{place}:row {number}", row_of(table, index)
            if isinstance(row, UnicodeDecodeError):
                yield Reject(where, *not_utf8(row))
            else:
                yield Row(where, f"{name}:{number}", row)


def read_blocks(shard: Shard, block_bytes: int) -> Iterator[Block]:
    """The blocks of a shard, in order. A file that cannot be decoded (to its end) becomes a reject.

    Raises:
        ReadFault: the bytes of a file cannot be had, or there is no memory for them.
    """
    if shard[0].format == "parquet":
        yield from _checked(shard[0], _parquet_blocks(shard[0], block_bytes))
        return
    block = Block()
    for source in shard:
        read = _lines if source.format == "jsonl" else _text
        for item, consumed in _guarded(source, read(source)):
            block.consumed += consumed
            if isinstance(item, Reject):
                block.rejects.append(item)
            elif item is not None:
                size = len(item.content)
                if block.size and (block.size + size > block_bytes or len(block) >= ROWS_PER_BLOCK):
                    yield block
                    block = Block()
                block.rows.append(item)
                block.size += size
            if len(block.rejects) >= ROWS_PER_BLOCK:
                yield block
                block = Block()
    if len(block) or block.consumed:
        yield block


Found = tuple[Row | Reject | None, float]
"""A row, a reject or nothing, and the bytes of the file that were read for it."""


def _guarded(source: Source, found: Iterable[Found]) -> Iterator[Found]:
    try:
        yield from found
    except _BROKEN as error:
        yield Reject(source.place.shown, f"a broken gzip file ({error})", "pack it again"), 0.0


def _text(source: Source) -> Iterator[Found]:
    with _opened(source) as (stream, _):
        data = stream.read(LONGEST + 1)
    if len(data) > LONGEST:
        yield Reject(source.place.shown, f"a text {_TOO_LONG}", "split it", source.name), float(source.size)
    elif not data:
        yield Reject(source.place.shown, "an empty file", "remove it, or restore its content"), 0.0
    else:
        yield Row(source.place.shown, source.name, data, is_text=True), float(source.size)


def _lines(source: Source) -> Iterator[Found]:
    with _opened(source) as (stream, tell):
        number, last, is_empty = 0, 0, True
        while line := stream.readline(LONGEST + 1):
            number += 1
            where = f"{source.place.shown}:{number}"
            place, last = last, tell()
            if len(line) > LONGEST and not line.endswith(b"\n"):
                while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                    pass
                is_empty = False
                yield Reject(where, f"a line {_TOO_LONG}", "split the document"), float(last - place)
            elif line.strip():
                is_empty = False
                lines = [line]
                if number == 1 and not line.endswith(b"\n"):
                    # CR ends the lines of a file without LF, as `split_lines` has it; one at a time.
                    lines = (found[0] for found in _TO_CR.finditer(line))
                for at, one in enumerate(lines, number):
                    if one.strip():
                        row = Row(f"{source.place.shown}:{at}", f"{source.name}:{at}", one)
                        yield row, (last - place) * len(one) / len(line)
        if is_empty:
            yield Reject(source.place.shown, "no documents in it", "remove it, or restore its content"), 0.0
        yield None, float(max(0, source.size - last))


class _Bytes(io.RawIOBase):
    """The bytes of a file. `fault`: the error that kept some from being read, whatever others make of it."""

    def __init__(self, file: pa.NativeFile) -> None:
        self.file = file
        self.fault: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes, fewer only at the end; all where the size is negative."""
        try:
            return self.file.read(size if size >= 0 else None)
        except Exception as error:
            self.fault = error
            raise

    def readinto(self, buffer: Any) -> int:
        """Read into the buffer; how many bytes, 0 at the end."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place in the file."""
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        """The place in the file."""
        return self.file.tell()


@contextmanager
def _bytes_of(source: Source) -> Iterator[_Bytes]:
    """The file, open. An error that its content is not to blame for becomes a `ReadFault`."""
    place, raw = source.place, None
    try:
        with place.filesystem.open_input_file(place.path) as file:
            raw = _Bytes(file)
            yield raw
    except Exception as error:
        if raw is None or raw.fault or is_fault(error):
            raise read_fault(place.shown, (raw and raw.fault) or error) from error
        raise


@contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """A file as a stream of bytes, unpacked where its name ends in .gz, and the place in the file."""
    with _bytes_of(source) as raw:
        buffered = io.BufferedReader(raw, _CHUNK)
        if is_packed(source.place.path):
            yield gzip.GzipFile(fileobj=buffered), raw.tell  # type: ignore[misc]
        else:
            # Not that of `raw`, which is a buffer ahead: at the end of a small file from its first line on.
            yield buffered, buffered.tell


def _checked(source: Source, blocks: Iterable[Block]) -> Iterator[Block]:
    try:
        yield from blocks
    except (pa.ArrowException, OSError) as error:
        what = f"not a Parquet file that can be read ({first_line(error)})"
        reject = Reject(source.place.shown, what, "write it again")
        yield Block(rejects=[reject])


def _parquet_blocks(source: Source, block_bytes: int) -> Iterator[Block]:
    place = source.place
    with (
        _bytes_of(source) as raw,
        pq.ParquetFile(
            # Arrow's errors of local files have an `errno`; its own reads spare a copy of each page.
            raw.file if place.is_local else pa.PythonFile(raw, "r"),
            buffer_size=_CHUNK,
            pre_buffer=False,
        ) as file,
    ):
        names = file.schema_arrow.names
        fault = missing_column(names)
        if fault or not file.metadata.num_rows:
            what, hint = fault or ("no documents in it", "remove it, or restore its content")
            yield Block(rejects=[Reject(place.shown, what, hint)], consumed=source.size)
            return
        columns = [name for name in DOCUMENT_SCHEMA.names if name in names]
        first, total = 0, file.metadata.num_rows
        for batch in file.iter_batches(_rows_at_once(file.metadata, block_bytes), columns=columns):
            for part in _of_size(batch, min(2 * block_bytes, LONGEST)):
                consumed = source.size * part.num_rows / total
                if _is_too_long(part):
                    reject = Reject(f"{place.shown}:row {first}", f"a row {_TOO_LONG}", "split the document")
                    yield Block(rejects=[reject], consumed=consumed)
                    first += 1
                    continue
                yield Block(
                    parquet=_arrow_stream(part),
                    source=(place.shown, source.name),
                    first=first,
                    count=part.num_rows,
                    size=part.nbytes,
                    consumed=consumed,
                )
                first += part.num_rows


def _arrow_stream(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _rows_at_once(metadata: pq.FileMetaData, block_bytes: int) -> int:
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    largest = max(group.total_byte_size / max(1, group.num_rows) for group in groups)
    return int(min(ROWS_PER_BLOCK, max(1, block_bytes // max(1.0, largest))))


def _of_size(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The batch, in halves for as long as they are over the size: a few rows may be much larger than most."""
    if batch.num_rows > 1 and batch.nbytes > size:
        middle = batch.num_rows // 2
        yield from _of_size(batch.slice(0, middle), size)
        yield from _of_size(batch.slice(middle), size)
    else:
        yield batch


def _is_too_long(batch: pa.RecordBatch) -> bool:
    if batch.num_rows > 1 or batch.nbytes <= LONGEST:
        return False
    # A column that is encoded with a dictionary has the texts of other rows with it.
    columns = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns]
    return sum(column.nbytes for column in columns) > LONGEST
