"""Documents with typed mentions as rows: windows, where their mentions are read, and their fine types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rayner.counted import counted
from rayner.data.fine_types import annotated_of, gold_types, is_among, looked_for, types_of_mentions
from rayner.data.schema import Document
from rayner.tasks.document_windows import known_types
from rayner.tasks.typer.mention_windows import MentionWindow


def rows_of(
    document: Document, windows: Sequence[MentionWindow], type_index: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """A row for each window of a document with a mention that has a type.

    Of several mentions of one span the first has the types of all: each would learn that those of the others
    are wrong. `places` of its mentions; `type_mention`, `type_index` are flat pairs. `known` holds the types
    that somebody looked for in them; nothing means all: a window whose mentions differ in that has two rows.
    The first row, or one with nothing else, has `rejects`.
    """
    types_of = types_of_mentions(document)
    known = known_types(document, type_index)
    groups: list[tuple[list[bool], list[int]]] = [
        ([types is not None and types.looked_for is None for types in types_of], [])
    ]
    if known is not None and len(known):
        among = [types is not None and types.looked_for is not None for types in types_of]
        groups.append((among, known.tolist()))
    rejects = list(_rejects(document, windows, type_index))
    for window in windows:
        for chosen, looked_among in groups:
            kept = np.array([chosen[number] for number in window.mentions.tolist()])
            if not kept.any():
                continue
            pairs = [
                (place, type_index[name])
                for place, number in enumerate(window.mentions[kept].tolist())
                if (types := types_of[number]) is not None
                for name in types.names
                if name in type_index
            ]
            yield {
                "document_id": document.document_id,
                "ids": window.ids,
                "length": len(window),
                "places": window.places[kept],
                "type_mention": [place for place, _ in pairs],
                "type_index": [index for _, index in pairs],
                "known": looked_among,
                "rejects": rejects,
            }
            rejects = []
    if rejects:
        yield {"rejects": rejects}


def _rejects(
    document: Document, windows: Sequence[MentionWindow], type_index: Mapping[str, int]
) -> Iterator[str]:
    """A line for each mention that is not learned, or not with all its types."""
    annotated = annotated_of(document)
    hidden = {number: window.hidden for window in windows for number in window.mentions.tolist()}
    for number, mention in enumerate(document.mentions):
        names, looked = gold_types(mention), looked_for(mention, annotated)
        place = f"{document.document_id}: mention at {mention.start}-{mention.end}"
        if number not in hidden:
            yield f"{place}: holds no word"
        elif not names:
            yield f"{place}: has no type"
        elif hidden[number]:
            middle = counted(int(hidden[number]), "sub-word")
            yield f"{place}: too long for a window, its middle is left out ({middle})"
        elif unknown := [name for name in names if name not in type_index]:
            yield f"{place}: the recipe has no type {', '.join(unknown)}"
        elif others := [name for name in names if not is_among(name, looked)]:
            yield f"{place}: the document was not annotated for {', '.join(others)}"
