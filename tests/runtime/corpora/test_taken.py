"""What a corpus keeps of its parts, brought into its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rayner.data.readers import read_corpus
from rayner.data.schema import Document
from rayner.data.writers import write_parquet
from rayner.runtime.corpora.part_folders import Output
from rayner.runtime.corpora.taken import Taken, take_as_parquet


def test_parts_of_which_documents_are_left_out_are_written_in_parallel(tmp_path: Path) -> None:
    out = tmp_path / "out"
    output = Output(out)
    parts = []
    for number, kept in enumerate(([True, True], [False, True])):
        source = output.parts / str(number) / "documents.parquet"
        write_parquet([Document(f"{number}{place}", "Ulm") for place in range(2)], source)
        parts.append(Taken(source, np.array(kept)))
    given: list[Any] = []

    def mapper(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        given.extend(items)
        return map(work, given)

    take_as_parquet(parts, output, mapper)
    assert list(map(str, given)) == [str(parts[1].source)]
    files = sorted(out.glob("*.parquet"))
    assert [[d.document_id for d in read_corpus(path).documents] for path in files] == [["00", "01"], ["11"]]
