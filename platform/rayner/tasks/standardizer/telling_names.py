"""Names of an index that tell what is scored of mentions: looked for once, while a model learns."""

from __future__ import annotations

from collections.abc import Sequence

from rayner.metrics.linking import GoldMention
from rayner.metrics.linking_errors import telling_texts
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.entity_table import EntityTable


def telling_names(entities: EntityTable, mentions: Sequence[GoldMention]) -> Sequence[str]:
    """As `telling_texts`, of all names and aliases; kept with the entities, which each evaluation of a
    training asks for the same mentions."""
    key = _texts_of(mentions)
    return entities.once(key, lambda table: telling_texts(mentions, table.texts(aliases=True)))


def telling_indexed(index: EntityIndex, mentions: Sequence[GoldMention]) -> Sequence[str]:
    """As `telling_names`, of what the index finds: with aliases or without, and the halves of
    `Long Form (LF)`."""
    key = index.settings.aliases, index.settings.abbreviations, _texts_of(mentions)
    return index.entities.once(key, lambda _: telling_texts(mentions, index.names.texts.to_pylist()))


def _texts_of(mentions: Sequence[GoldMention]) -> tuple[str, ...]:
    return tuple(mention.text for mention in mentions)
