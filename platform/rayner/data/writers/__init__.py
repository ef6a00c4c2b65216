"""Corpora written in other formats; each writer counts what its format cannot hold."""

from __future__ import annotations

from rayner.data.writers.base import Written
from rayner.data.writers.brat import write_brat
from rayner.data.writers.iob2 import write_iob2
from rayner.data.writers.jsonl import write_jsonl
from rayner.data.writers.livingner import write_livingner
from rayner.data.writers.parquet import write_parquet
from rayner.data.writers.pubtator import write_pubtator

__all__ = [
    "Written",
    "write_brat",
    "write_iob2",
    "write_jsonl",
    "write_livingner",
    "write_parquet",
    "write_pubtator",
]
