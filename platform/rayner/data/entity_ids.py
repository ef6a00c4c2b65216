"""Which entity the id of a mention means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping


def entity_of_id(entity_ids: Iterable[str], other_ids: Mapping[str, str]) -> Callable[[str], str | None]:
    """From the id of a mention to the entity that it means; None where that is none, or one of several.

    A prefix such as `MESH:` may be missing on either side. Where both have one and these differ, case aside,
    they are ids of different things.

    Args:
        other_ids: by which further ids entities are known (other id -> entity id); those of entities that are
            not among `entity_ids` are left out.
    """
    known = {id_: id_ for id_ in entity_ids}
    known = {other: id_ for other, id_ in other_ids.items() if id_ in known} | known
    with_number: dict[str, list[tuple[str, str]]] = {}
    for id_, entity_id in known.items():
        prefix, _, number = id_.rpartition(":")
        with_number.setdefault(number, []).append((prefix.casefold(), entity_id))

    def find(id_: str) -> str | None:
        if id_ in known:
            return known[id_]
        prefix, _, number = id_.rpartition(":")
        prefix, alike = prefix.casefold(), with_number.get(number, [])
        found = {of for other, of in alike if other == prefix}
        found = found or {of for other, of in alike if not prefix or not other}
        return found.pop() if len(found) == 1 else None

    return find
