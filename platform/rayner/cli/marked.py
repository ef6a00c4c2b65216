"""Texts with their mentions in colour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rayner.data.schema import Document

# Colour-blind safe (Okabe and Ito), readable on dark and on light terminals.
COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#f0e442")


def colours_of(types: Iterable[str]) -> dict[str, str]:
    """A colour for each type, the same for the same types in the same order."""
    return dict(zip(types, cycle(COLOURS), strict=False))


def marked_text(
    document: Document, colours: Mapping[str, str], entities: Mapping[str, str] | None = None
) -> Text:
    """The text with every mention in the colour of its type, and after it the type and the entity's name.

    `entities` are names by id. A mention inside a longer one, or crossing one that starts earlier, is left
    unmarked.
    """
    marked, position = Text(), 0
    for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        if mention.start < position:
            continue
        colour = colours.get(mention.type, "bold")
        marked.append(document.text[position : mention.start])
        marked.append(document.text[mention.start : mention.end], style=f"bold {colour}")
        name = (entities or {}).get(mention.entity_id or "")
        marked.append(f" [{mention.type}: {name}]" if name else f" [{mention.type}]", style=colour)
        position = mention.end
    return marked.append(document.text[position:])
