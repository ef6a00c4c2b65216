"""Examples of a standardizer: a row for each string of an entity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rayner.config.standardizer import VariantSettings
from rayner.data.schema import Entity
from rayner.data.string_hashes import number_of
from rayner.supervision.name_variants import first_prefix, vary
from rayner.tasks.base import Seed
from rayner.tasks.document_windows import SPECIAL_TOKENS
from rayner.tasks.standardizer.encoding import LONGEST

ENTITIES_AT_ONCE = 512
"""Whose strings are tokenized together."""


def name_examples(
    entities: Iterable[Entity],
    tokenize: Callable[[Sequence[str]], Sequence[Sequence[int]]],
    prefixes: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """A row for each string of an entity, its name first.

    An entity that has only its name has it twice: of two equal strings one is always varied.

    Args:
        tokenize: strings -> the sub-words of each.
        prefixes: words that are left out at the start of names or put there.
    """
    rest = iter(entities)
    while some := list(islice(rest, ENTITIES_AT_ONCE)):
        names = [(entity.name, *(entity.aliases or (entity.name,))) for entity in some]
        sub_words = iter(tokenize([name for of_entity in names for name in of_entity]))
        for entity, of_entity in zip(some, names, strict=True):
            yield from _rows(entity, of_entity, sub_words, prefixes)


def _rows(
    entity: Entity, names: Sequence[str], sub_words: Iterator[Sequence[int]], prefixes: Sequence[str]
) -> Iterator[dict[str, Any]]:
    starts = [start for name in names if (start := first_prefix(name, prefixes)) is not None]
    label = number_of(entity.entity_id)
    for place, name in enumerate(names):
        ids = next(sub_words)
        cut = f"{entity.entity_id}: {name[:60]!r} has {len(ids)} sub-words, of which {LONGEST} are read"
        yield {
            "entity_id": entity.entity_id,
            "label": label,
            "text": name,
            "ids": np.array(ids[:LONGEST], np.int32),
            "length": len(ids[:LONGEST]) + SPECIAL_TOKENS,
            "group": entity.entity_id,
            "vary": "never" if place == 0 else "always" if name == entity.name else "drawn",
            "prefix": starts[0] if starts else None,
            "rejects": [cut] if len(ids) > LONGEST else [],
        }


def varied(example: Mapping[str, Any], settings: VariantSettings, seed: Seed) -> str:
    """The string of a row, perhaps written otherwise."""
    text, how = example["text"], example["vary"]
    if how == "never" or not settings.total:
        return text
    return vary(text, settings, np.random.default_rng(seed), example["prefix"], how == "always")
