"""What was seen of the parts of a corpus, in a folder, and which documents of any repeat another one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rayner.data.corpus_check import DocumentPlace, repetition_findings
from rayner.runtime.corpora.part_findings import SCHEMA, Seen, SplitPart, place_of
from rayner.runtime.repeated_ids import by_block, repeated


class SeenParts:
    """What was seen of the parts, in a folder."""

    def __init__(self, folder: Path, parts: Sequence[SplitPart]) -> None:
        self._folder, self.parts = folder, parts
        self._splits = list(dict.fromkeys(part.split for part in parts))

    def put(self, number: int, seen: Seen) -> None:
        """Take what was seen of a part, in place of what was seen before."""
        pq.write_table(seen.documents, self._folder / f"{number}.parquet")
        told = {
            "mentions": seen.mentions,
            "types": seen.types,
            "used": seen.used,
            "repaired": seen.repaired,
            **{
                name: {"rows": listed.rows, "counts": list(listed.counts.items())}
                for name, listed in (("own", seen.own), ("rejects", seen.rejects), ("clashes", seen.clashes))
            },
        }
        (self._folder / f"{number}.json").write_text(json.dumps(told), "utf-8")

    def told(self, number: int) -> dict[str, Any]:
        """What was seen of a part, less its documents: the attributes of `Seen`."""
        return json.loads((self._folder / f"{number}.json").read_text("utf-8"))

    def rows(self, number: int) -> int:
        """The documents of a part."""
        return pq.read_metadata(self._folder / f"{number}.parquet").num_rows

    def in_cut_files(self) -> Iterator[tuple[SplitPart, pa.Table]]:
        """The documents whose id an earlier one of the same file has, where a file was cut: rows of
        `rayner.runtime.repeated_ids.repeated`, part by part."""
        cut = ((p.split, unit.paths[0], p.number) for p in self.parts for unit in p.of.units if unit.span)
        for (_, file), pieces in groupby(cut, key=lambda found: found[:2]):
            numbers = list(dict.fromkeys(number for *_, number in pieces))
            yield from self._again("document_id", ["digest"], numbers, file)

    def repetitions(self) -> Iterator[dict[int, list[dict[str, Any]]]]:
        """For each part, by the number of the document, what is wrong with it beside all before it."""
        numbers = range(len(self.parts))
        ids, texts = (_Upcoming(self._again(key, [], numbers)) for key in ("document_id", "text"))
        groups = _Upcoming(self._groups_in_other_splits(numbers) if len(self._splits) > 1 else iter(()))
        for part in self.parts:
            same_id, same_text, same_group = (one.of(part) for one in (ids, texts, groups))
            found = {}
            for number in sorted(same_id.keys() | same_text.keys() | same_group.keys()):
                of_id, of_text, of_group = (same.get(number) for same in (same_id, same_text, same_group))
                row = of_id or of_text or of_group or {}
                findings = repetition_findings(
                    place_of(part.split, row["name"], row["place"]),
                    self._first(of_id) if of_id else None,
                    self._first(of_text) if of_text else None,
                    (of_group["document_id"], self._first(of_group)) if of_group else None,
                )
                found[number] = [asdict(finding) for finding in findings]
            yield found

    def _first(self, row: dict[str, Any]) -> DocumentPlace:
        return place_of(self._splits[row["first_split"]], row["first_name"], row["first_place"])

    def _groups_in_other_splits(self, numbers: Sequence[int]) -> Iterator[tuple[SplitPart, pa.Table]]:
        for part, again in self._again("group", [], numbers):
            yield part, again.filter(pc.not_equal(again["split"], again["first_split"]))  # pyright: ignore

    def _again(
        self, key: str, columns: Sequence[str], numbers: Sequence[int], file: str | None = None
    ) -> Iterator[tuple[SplitPart, pa.Table]]:
        """The documents of parts, or of a file in them, with the value in a column that one before has."""
        kept = ["place", "name", "split", "number", *columns]

        def tables(names: list[str]) -> Iterator[pa.Table]:
            for number in numbers:
                path = self._folder / f"{number}.parquet"
                read = {key, "file"} if names == ["document_id"] else SCHEMA.names
                table = pq.read_table(path, columns=sorted(read))
                if len(names) > 1:
                    split = self._splits.index(self.parts[number].split)
                    table = table.append_column("name", table["document_id"])
                    table = table.append_column("split", pa.array([split] * len(table), pa.int32()))
                    table = table.append_column("number", pa.array(range(len(table)), pa.int32()))
                if file is not None:
                    table = table.filter(pc.equal(table["file"], file))  # pyright: ignore
                table = table.filter(pc.is_valid(table[key]))  # pyright: ignore
                values = table[key]
                others = [name for name in names if name != "document_id"]
                yield table.select(others).add_column(0, "document_id", values)

        documents = sum(map(self.rows, numbers))
        with TemporaryDirectory(dir=self._folder) as folder:
            found = repeated(tables, kept, documents, len(numbers), Path(folder))
            for again in chain.from_iterable(map(by_block, found)):
                yield self.parts[numbers[again["block"][0].as_py()]], again


class _Upcoming:
    """What the documents of each part in turn repeat."""

    def __init__(self, found: Iterator[tuple[SplitPart, pa.Table]]) -> None:
        self._found = found
        self._next = next(found, None)

    def of(self, part: SplitPart) -> dict[int, dict[str, Any]]:
        """The rows of a part, by the number of the document."""
        if self._next is None or self._next[0].number != part.number:
            return {}
        rows = self._next[1].to_pylist()
        self._next = next(self._found, None)
        return {row["number"]: row for row in rows}
