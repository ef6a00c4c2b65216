"""Which entity the id of a mention means."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rayner.data.schema import Entity


def entity_of_id(entities: Iterable[Entity]) -> Callable[[str], str | None]:
    """From the id of a mention to the entity that it means; None where that is none, or one of several.

    A prefix such as `MESH:` may be missing on either side, but digits alone are none of a prefix that only
    further ids have (genes are numbered as diseases of DOID are). Where both have one and these differ, case
    aside, they are ids of different things. An id of one entity and further id of others means the one, a
    further id of several the first of them.
    """
    known: dict[str, str] = {}
    further: dict[str, str] = {}
    for entity in entities:
        known[entity.entity_id] = entity.entity_id
        for id_ in entity.other_ids:
            further.setdefault(id_, entity.entity_id)
    own = {id_.rpartition(":")[0].casefold() for id_ in known}
    known = further | known
    # By number alone, and by prefix and number; None where that is of several.
    alike: dict[str, str | None] = {}
    same: dict[tuple[str, str], str | None] = {}
    for id_, entity_id in known.items():
        prefix, _, number = id_.rpartition(":")
        pair = prefix.casefold(), number
        if pair[0] in own or not number.isdigit():
            alike[number] = entity_id if alike.get(number, entity_id) == entity_id else None
        same[pair] = entity_id if same.get(pair, entity_id) == entity_id else None

    def find(id_: str) -> str | None:
        if id_ in known:
            return known[id_]
        prefix, _, number = id_.rpartition(":")
        if "|" in prefix or "+" in prefix:
            # Several ids, of which this would be the last.
            return None
        prefix = prefix.casefold()
        if (prefix, number) in same:
            return same[prefix, number]
        return same.get(("", number)) if prefix else alike.get(number)

    return find
