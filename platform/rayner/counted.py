"""Counts with their nouns, as messages and summaries name them."""

from __future__ import annotations


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """The number and the noun that goes with it: `1 trial`, `2,000 trials`, `0 entities`.

    Args:
        noun: for one.
        nouns: for any other number; by default `noun` with an s.
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
