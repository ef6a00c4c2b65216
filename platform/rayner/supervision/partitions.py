"""Groups of what is joined pair by pair."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Joined(Generic[T]):
    """Things in groups, each alone until it is joined with another."""

    def __init__(self) -> None:
        self._above: dict[T, T] = {}

    def join(self, one: T, other: T) -> None:
        """Put the groups of the two together."""
        self._above[self._top(one)] = self._top(other)

    def groups(self) -> list[list[T]]:
        """The groups of all that was joined, each in the order in which its members came."""
        found: dict[T, list[T]] = {}
        for one in self._above:
            found.setdefault(self._top(one), []).append(one)
        return list(found.values())

    def _top(self, one: T) -> T:
        self._above.setdefault(one, one)
        while self._above[one] != one:
            # Halving the path keeps it short.
            self._above[one] = self._above[self._above[one]]
            one = self._above[one]
        return one
