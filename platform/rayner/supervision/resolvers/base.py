"""What a coreference resolver is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rayner.data.schema import Document, Span

Chains = Sequence[Sequence[Span]]
"""The mentions of each chain, as characters of the document; chains of one mention say nothing."""


class Resolver(Protocol):
    """Finds which mentions of a document corefer. It pickles, and loads what it needs when first called.

    Attributes:
        name: what it is called in counts and errors.
        version: tells its answers from those of any other, its model included.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def __call__(self, document: Document) -> Chains:
        """The chains of a document; mentions that it brings are not read."""
        ...
