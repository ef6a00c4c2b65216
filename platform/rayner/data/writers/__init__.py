"""Corpora written in other formats; each writer counts what its format cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from rayner.data.schema import Document
from rayner.data.spacy_docs import load_spacy
from rayner.data.writers.base import Loss, Written
from rayner.data.writers.bioc import write_bioc, write_bioc_json
from rayner.data.writers.brat import write_brat
from rayner.data.writers.docbin import write_docbin
from rayner.data.writers.iob2 import write_iob2
from rayner.data.writers.jsonl import write_jsonl
from rayner.data.writers.parquet import write_parquet
from rayner.data.writers.pubtator import write_pubtator

__all__ = [
    "WRITERS",
    "Loss",
    "Written",
    "write_bioc",
    "write_bioc_json",
    "write_brat",
    "write_docbin",
    "write_iob2",
    "write_jsonl",
    "write_parquet",
    "write_pubtator",
]


class Writer(NamedTuple):
    """How documents are written in a format.

    Args:
        write: documents to a file, or to a folder where the format has no suffix.
        suffix: of its one file; "" where it makes several.
        named_by_document: whether files have the names of documents.
        require: raises InputError where something that is needed is not installed.
    """

    write: Callable[[Iterable[Document], Path], Written]
    suffix: str = ""
    named_by_document: bool = False
    require: Callable[[], object] = lambda: None


WRITERS: dict[str, Writer] = {
    "parquet": Writer(write_parquet, ".parquet"),
    "jsonl": Writer(write_jsonl, ".jsonl"),
    "iob2": Writer(write_iob2, ".iob2"),
    "brat": Writer(write_brat, named_by_document=True),
    "pubtator": Writer(write_pubtator, ".pubtator"),
    "bioc": Writer(write_bioc, ".xml"),
    "bioc_json": Writer(write_bioc_json, ".json"),
    "docbin": Writer(write_docbin, require=load_spacy),
}
