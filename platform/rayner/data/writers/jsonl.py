"""JSON lines of our schema: null fields are left out, nothing else is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from rayner.data.schema import Document, document_to_row, sentence_rows
from rayner.data.writers.base import Written
from rayner.files.whole import text_file


def write_jsonl(documents: Iterable[Document], path: str | PathLike[str]) -> Written:
    """Write one document a line, packed where the name ends in .gz."""
    written = Written(paths=[Path(path)])
    with text_file(Path(path)) as file:
        for document in documents:
            file.write(json.dumps(json_row(document), ensure_ascii=False) + "\n")
            written.add(document.mentions)
    return written


def json_row(document: Document) -> dict[str, Any]:
    """The document as a JSON object, without what is null; its sentences with the contexts of each."""
    row = {name: value for name, value in document_to_row(document).items() if value is not None}
    row["contexts"] = [_known(context) for context in row["contexts"]]
    if (sentences := sentence_rows(document)) is not None:
        row["sentences"] = [{**one, "contexts": [_known(c) for c in one["contexts"]]} for one in sentences]
    for mention in row["mentions"]:
        mention["candidates"] = [_known(candidate) for candidate in mention["candidates"]]
    row["mentions"] = [_known(mention) for mention in row["mentions"]]
    return row


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and value != []}
