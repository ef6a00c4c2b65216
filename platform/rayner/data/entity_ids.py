"""Which entity the id of a mention means."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rayner.data.schema import Entity


def entity_of_id(entities: Iterable[Entity]) -> Callable[[str], str | None]:
    """From the id of a mention to the entity that it means; None where that is none, or one of several.

    A prefix such as `MESH:` may be missing on either side. Where both have one and these differ, case aside,
    they are ids of different things. An id of one entity and further id of others means the one, a further id
    of several the first of them.
    """
    known: dict[str, str] = {}
    further: dict[str, str] = {}
    for entity in entities:
        known[entity.entity_id] = entity.entity_id
        for id_ in entity.other_ids:
            further.setdefault(id_, entity.entity_id)
    known = further | known
    with_number: dict[str, list[tuple[str, str]]] = {}
    for id_, entity_id in known.items():
        prefix, _, number = id_.rpartition(":")
        with_number.setdefault(number, []).append((prefix.casefold(), entity_id))

    def find(id_: str) -> str | None:
        if id_ in known:
            return known[id_]
        prefix, _, number = id_.rpartition(":")
        if "|" in prefix or "+" in prefix:
            # Several ids, of which this would be the last.
            return None
        prefix, alike = prefix.casefold(), with_number.get(number, [])
        found = {of for other, of in alike if other == prefix}
        found = found or {of for other, of in alike if not prefix or not other}
        return found.pop() if len(found) == 1 else None

    return find
