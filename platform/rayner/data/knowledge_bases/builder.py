"""Entities from rows in any order: one entry an id, its names cleaned and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from rayner.data.mention_strings import fold
from rayner.data.readers.base import as_written, is_encodable
from rayner.data.schema import Entity
from rayner.errors import KnowledgeBaseError
from rayner.files.uris import tell_of_uris

Repeats = Literal["never", "rows", "names"]
"""What a second row of an id is: a mistake, more of the same entity if it has the same name, another name."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that was not read: of what kind, where (`file:line`), what, and what to do about it."""

    kind: str
    where: str
    what: str
    hint: str
    entity_id: str | None = None

    def __post_init__(self) -> None:
        tell_of_uris(self)


@dataclass(frozen=True, slots=True)
class Repeat:
    """An id in two places whose names agree; the two were merged."""

    entity_id: str
    where: str
    first: str


@dataclass(slots=True)
class _Entry:
    where: str
    name: str | None = None
    aliases: dict[str, None] = field(default_factory=dict)
    type: str | None = None
    description: str | None = None
    parents: dict[str, None] = field(default_factory=dict)
    other_ids: dict[str, None] = field(default_factory=dict)
    folded: set[str] | None = None
    """The name and the aliases in one case, from the second row on that has a name of its own."""


@dataclass(slots=True)
class Builder:
    """Collects rows. An id that occurs twice is merged where the names agree, otherwise rejected."""

    rejects: list[Reject] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    repaired: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    entries: dict[str, _Entry] = field(default_factory=dict)

    def reject(
        self, where: str, what: str, hint: str, kind: str = "unreadable", entity_id: str | None = None
    ) -> None:
        """Note what could not be read."""
        id_ = None if entity_id is None else as_written(entity_id)
        self.rejects.append(Reject(kind, as_written(where), as_written(what), hint, id_))

    def add(
        self,
        entity_id: str,
        name: str | None,
        where: str,
        *,
        aliases: Iterable[str] = (),
        type: str | None = None,
        description: str | None = None,
        parents: Iterable[str] = (),
        other_ids: Iterable[str] = (),
        repeats: Repeats = "never",
    ) -> None:
        """Take a row. Without a name (None) it brings aliases of an entity that another row names."""
        entity_id, aliases, parents = entity_id.strip(), list(aliases), list(parents)
        other_ids = list(other_ids)
        if not entity_id:
            self.reject(where, "an entity without an id", "give it one", "empty id")
            return
        given = (entity_id, name, type, description, *aliases, *parents, *other_ids)
        if not all(is_encodable(text or "") for text in given):
            what = f"{entity_id!a} holds half a surrogate pair, which is no character"
            self.reject(where, what, "write the character itself, in UTF-8", entity_id=entity_id)
            return
        name = None if name is None else self._clean(name)
        names = [alias for alias in map(self._clean, aliases) if alias]
        self._repair("empty alias dropped", len(aliases) - len(names))
        if name == "" or (name is None and not names):
            self.reject(where, f"{entity_id!r} has an empty name", "name it", "empty name", entity_id)
            return
        entry = self.entries.get(entity_id)
        if entry is None:
            entry = self.entries[entity_id] = _Entry(where)
        elif not self._may_join(entry, entity_id, name, names, where, repeats):
            return
        elif repeats == "names" and name == entry.name:
            self._repair("duplicate alias dropped")
        self._join(entry, name, names, type, description)
        entry.parents.update(dict.fromkeys(filter(None, (parent.strip() for parent in parents))))
        entry.other_ids.update(dict.fromkeys(filter(None, (other.strip() for other in other_ids))))

    def add_type(self, entity_id: str, type: str) -> None:
        """Give an entity that a row before named a type, if it has none."""
        entry = self.entries.get(entity_id.strip())
        if entry is None:
            self._ignore("type of an entity without a name")
        else:
            self._join(entry, None, [], type, None)

    def add_other_id(self, entity_id: str, other: str) -> bool:
        """Give an entity that a row before named a further id; False where there is none."""
        entry = self.entries.get(entity_id)
        if entry is not None:
            entry.other_ids[other] = None
        return entry is not None

    def finish(self, max_aliases: int | None = None) -> tuple[list[Entity], list[str]]:
        """The entities in the order of their first rows, and where these stand.

        Raises:
            KnowledgeBaseError: an entity has more than `max_aliases` aliases.
        """
        entities = []
        for entity_id, entry in self.entries.items():
            name = entry.name
            if name is None:
                name = next(iter(entry.aliases))
                self._repair("first alias taken for the name")
            elif name in entry.aliases:
                self._repair("duplicate alias dropped")
            aliases = tuple(alias for alias in entry.aliases if alias != name)
            if max_aliases is not None and len(aliases) > max_aliases:
                what = f"{entity_id!r} has {len(aliases)} aliases, more than the limit of {max_aliases}"
                hint = "raise max_aliases (an index is built with --max-aliases), or shorten its list"
                raise KnowledgeBaseError(entry.where, what, hint)
            others = tuple(other for other in entry.other_ids if other != entity_id)
            entities.append(Entity(entity_id, name, aliases, entry.type, entry.description, others))
        return entities, [entry.where for entry in self.entries.values()]

    def _may_join(
        self,
        entry: _Entry,
        entity_id: str,
        name: str | None,
        names: list[str],
        where: str,
        repeats: Repeats,
    ) -> bool:
        expected = repeats == "names" or (repeats == "rows" and name == entry.name)
        if expected or name is None or entry.name is None:
            return True
        if entry.folded is None:
            entry.folded = {*map(fold, (entry.name, *entry.aliases))}
        if fold(name) in entry.folded or fold(entry.name) in map(fold, (name, *names)):
            self.repeats.append(Repeat(entity_id, where, entry.where))
            self._repair("id that occurs twice merged")
            return True
        what = f"the id {entity_id!r} names {short(name)} here and {short(entry.name)} at {entry.where}"
        self.reject(where, what, "give one of them another id, or merge the two", "duplicate id", entity_id)
        return False

    def _join(
        self,
        entry: _Entry,
        name: str | None,
        names: list[str],
        type: str | None,
        description: str | None,
    ) -> None:
        if name is not None and entry.name is None:
            entry.name = name
        elif name is not None and name != entry.name:
            names = [name, *names]
        new = dict.fromkeys(alias for alias in names if alias not in entry.aliases)
        self._repair("duplicate alias dropped", len(names) - len(new))
        entry.aliases.update(new)
        if entry.folded is not None:
            entry.folded.update(map(fold, new))
        type, description = (type or "").strip(), (description or "").strip()
        self._ignore("second type", bool(type and entry.type and type != entry.type))
        second = description and entry.description and description != entry.description
        self._ignore("second description", bool(second))
        entry.type = entry.type or type or None
        entry.description = entry.description or description or None

    def _clean(self, name: str) -> str:
        stripped = name.strip()
        self._repair("white space around a name removed", bool(stripped) and stripped != name)
        return stripped

    def _repair(self, reason: str, count: int = 1) -> None:
        if count:
            self.repaired[reason] += count

    def _ignore(self, what: str, count: int = 1) -> None:
        if count:
            self.ignored[what] += count


def short(name: str) -> str:
    """A name for a message, in quotes."""
    return repr(name if len(name) <= 60 else f"{name[:57]}...")
