"""Corpora written in other formats; each writer counts what its format cannot hold."""

from __future__ import annotations

from rayner.data.writers.base import Written
from rayner.data.writers.parquet import write_parquet

__all__ = ["Written", "write_parquet"]
