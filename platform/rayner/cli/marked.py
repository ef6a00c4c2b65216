"""Texts with their mentions in colour."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING

from rich.text import Text

from rayner.cli.printing import visible

if TYPE_CHECKING:
    from rayner.data.schema import Document, Mention

# Colour-blind safe (Okabe and Ito), readable on dark and on light terminals.
COLOURS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#0072b2", "#f0e442")
NIL = "NIL"


def colours_of(types: Iterable[str]) -> dict[str, str]:
    """A colour for each type, the same for the same types in the same order."""
    return dict(zip(types, cycle(COLOURS), strict=False))


def marked_text(
    document: Document, colours: Mapping[str, str], label: Callable[[Mention], str], one_line: bool = False
) -> Text:
    """The text with every mention as `[mention](label)` in the colour of its type, also those inside others.

    A mention that crosses one which starts earlier follows after the text.

    Args:
        one_line: write line breaks and tabs out.
    """
    marked, position = Text(), 0
    open_: list[Mention] = []
    crossing: list[Mention] = []

    def append(end: int) -> None:
        nonlocal position
        style = f"bold {_colour(open_[-1], colours)}" if open_ else ""
        marked.append(visible(document.text[position:end], one_line), style)
        position = end

    def close(until: float) -> None:
        while open_ and open_[-1].end <= until:
            append(open_[-1].end)
            mention = open_.pop()
            marked.append(f"]({visible(label(mention), True)})", _colour(mention, colours))

    for mention in sorted(document.mentions, key=lambda m: (m.start, -m.end)):
        close(mention.start)
        if open_ and open_[-1].end < mention.end:
            crossing.append(mention)
            continue
        append(mention.start)
        marked.append("[", _colour(mention, colours))
        open_.append(mention)
    close(float("inf"))
    append(len(document.text))
    for mention in crossing:
        surface = visible(document.text[mention.start : mention.end], True)
        text = f" +[{surface}]({visible(label(mention), True)})"
        marked.append(text, _colour(mention, colours))
    return marked


def label_of(mention: Mention, is_linked: bool = False, scores: bool = False) -> str:
    """`TYPE: FINE, FINE = ID NAME` of a mention, as far as it has them.

    Args:
        is_linked: whether the mention was looked up in a knowledge base, and so may be NIL.
        scores: add the score of the mention and of each fine type, and the probability of its entity.
    """

    def scored(text: str, score: float | None) -> str:
        return f"{text} {score:.2f}" if scores and score is not None else text

    label = scored(mention.type, mention.score)
    if mention.types:
        label += ": " + ", ".join(scored(name, score) for name, score in mention.types)
    if mention.entity_id is not None:
        shown = f"{mention.entity_id} {mention.name or ''}".rstrip()
        return f"{label} = " + scored(shown, mention.probability)
    return f"{label} = {scored(NIL, mention.probability)}" if is_linked else label


def _colour(mention: Mention, colours: Mapping[str, str]) -> str:
    return colours.get(mention.type, "")
