"""Which stage of a chain links a mention, and the scores of all links together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from rayner.data.mention_strings import is_right
from rayner.data.schema import UNKNOWN, Document, Mention
from rayner.metrics.counts import Key
from rayner.metrics.linked_spans import score_linked_spans


@runtime_checkable
class Linking(Protocol):
    """A stage of entities that says which mentions it links. Those of a chain are scored together, a mention
    by the last one that links it; a stage of entities that is no such one is scored by itself."""

    def links(self, mention: Mention) -> bool:
        """Whether it looks for entities of mentions of the type."""
        ...

    def right_ids(self, mention: Mention) -> tuple[tuple[str, ...], bool]:
        """The ids of a gold mention, by those of its knowledge base where it has them; whether it has any."""
        ...

    def names_of(self, ids: Collection[str]) -> Mapping[str, str]:
        """The names of those of the entities that it has, by id."""
        ...


def last_linking(stages: Sequence[Linking], mention: Mention) -> Linking | None:
    """The last stage that links mentions of the type, whose answer a mention has; None if none does."""
    return next((stage for stage in reversed(stages) if stage.links(mention)), None)


def score_links(
    stages: Sequence[Linking], predicted: Sequence[Document], gold: Sequence[Document]
) -> dict[str, Any]:
    """`linked_precision, linked_recall, linked_f1` of the mentions that one of the stages links.

    A mention has the entity of the last stage that links it. A gold mention that is given twice with
    different entities counts once, and any of them is right.
    """
    found = {(d.document_id, m.start, m.end, m.type): m.entity_id for d in predicted for m in d.mentions}

    def understood(document: Document) -> Document:
        ids: dict[Key, list[str]] = {}
        for mention in document.mentions:
            stage = last_linking(stages, mention)
            if stage and mention.type != UNKNOWN:
                key = mention.start, mention.end, mention.type
                ids.setdefault(key, []).extend(stage.right_ids(mention)[0])
        mentions = []
        for key, right in ids.items():
            answer = found.get((document.document_id, *key))
            mentions.append(Mention(*key, answer if is_right(answer, right) else next(iter(right), None)))
        # Whatever is answered on a mark of unknown type does not count.
        mentions += [mention for mention in document.mentions if mention.type == UNKNOWN]
        return replace(document, mentions=tuple(mentions))

    def linked(document: Document) -> Document:
        return replace(document, mentions=tuple(m for m in document.mentions if last_linking(stages, m)))

    return score_linked_spans([*map(understood, gold)], [*map(linked, predicted)])
