"""Names of an index that tell what is scored of mentions: looked for once, while a model learns."""

from __future__ import annotations

from collections.abc import Sequence

from rayner.metrics.linking import GoldMention
from rayner.metrics.linking_errors import telling_texts
from rayner.retrieval.entity_table import EntityTable


def telling_names(entities: EntityTable, mentions: Sequence[GoldMention], aliases: bool) -> Sequence[str]:
    """As `telling_texts`, of all names and with `aliases` of all aliases; kept with the entities, which each
    evaluation of a training asks for the same mentions."""
    key = aliases, tuple(mention.text for mention in mentions)
    return entities.once(key, lambda table: telling_texts(mentions, table.texts(aliases)))
