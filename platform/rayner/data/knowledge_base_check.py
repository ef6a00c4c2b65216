"""What is wrong with a knowledge base, before anything is linked to it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from rayner.counted import counted
from rayner.data.corpus_check import Finding
from rayner.data.knowledge_bases import KnowledgeBase
from rayner.data.knowledge_bases.builder import short
from rayner.data.mention_strings import MOST_CHARACTERS, SEVERAL, normal_form, unanswerable
from rayner.data.readers.base import NO_ENTITY
from rayner.data.schema import Entity

SHOWN = 5


def check_knowledge_base(base: KnowledgeBase) -> list[Finding]:
    """Look at every entity once: ids, names that several share, encoding, parents, aliases."""
    found: list[Finding] = []
    for reject in base.rejects:
        found.append(Finding(reject.kind, "error", reject.where, reject.what, reject.hint))
    for repeat in base.repeats:
        what = f"the id {repeat.entity_id!r} is also at {repeat.first}; their names agree: merged"
        found.append(Finding("duplicate id", "warning", repeat.where, what, "keep one"))
    for entity, where in zip(base.entities, base.places, strict=True):
        found += _name_findings(entity, where)
    found += _joining_ids(base)
    found += _ids_of_none(base)
    found += _shared_ids(base)
    found += _ambiguous(base)
    found += _without_alias(base)
    found += _parent_findings(base)
    if len(base.entities) == 1:
        what = f"{base.entities[0].entity_id!r} is the only entity, so there is nothing to choose from"
        found.append(Finding("one entity", "error", base.places[0], what, "add the others"))
    return found


def find_cycles(parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """One cycle for each way back that a depth-first walk meets: its ids, each a child of the next."""
    cycles, done = [], set[str]()
    for root in parents:
        if root in done:
            continue
        path, on_path = [root], {root: 0}
        walk = [iter(parents[root])]
        while walk:
            parent = next(walk[-1], None)
            if parent is None:
                walk.pop()
                done.add(last := path.pop())
                del on_path[last]
            elif parent in on_path:
                cycles.append(path[on_path[parent] :])
            elif parent not in done:
                on_path[parent] = len(path)
                path.append(parent)
                walk.append(iter(parents.get(parent, ())))
    return cycles


def _name_findings(entity: Entity, where: str) -> Iterator[Finding]:
    texts = (entity.name, *entity.aliases, entity.description or "")
    faulty = set[str]()
    for text in texts:
        if fault := _encoding_fault(text):
            faulty.add(text)
            what = f"{entity.entity_id!r}: {short(text)} {fault}"
            yield Finding("encoding", "error", where, what, "decode the source as what it was written in")
    for name in texts[:-1]:
        if (length := len(normal_form(name))) > MOST_CHARACTERS:
            what = f"{entity.entity_id!r} has a name of {length} characters: {short(name)}"
            hint = "no mention finds it; look for an open quote or a wrong column"
            yield Finding("long name", "warning", where, what, hint)
        elif name not in faulty and (why := unanswerable(name)):
            what = f"{entity.entity_id!r} has a name that no mention can find, {why}: {short(name)}"
            yield Finding("name never found", "warning", where, what, "correct it, or leave it out")


def _encoding_fault(text: str) -> str:
    if text.isascii() and text.isprintable():
        return ""
    if "\ufffd" in text:
        return "holds U+FFFD, the mark of what could not be decoded"
    for encoding in ("cp1252", "latin-1"):
        try:
            repaired = text.encode(encoding).decode()
        except UnicodeError:
            continue
        if repaired != text:
            return f"looks like UTF-8 read as {encoding}; it was perhaps {short(repaired)}"
    if any(unicodedata.category(c) == "Cc" and c not in "\t\n\r" for c in text):
        return "holds control characters"
    return ""


def _joining_ids(base: KnowledgeBase) -> Iterator[Finding]:
    found = [number for number, entity in enumerate(base.entities) if SEVERAL in entity.entity_id]
    if found:
        ids = _listed([repr(base.entities[number].entity_id) for number in found])
        what = (
            f"{len(found)} of {len(base.entities)} ids hold `{SEVERAL}`, which joins the ids of a mention of "
            f"several entities: {ids}"
        )
        hint = (
            "give them ids without it, here and in the mentions: beside another id, each is read as several"
        )
        yield Finding("joining id", "warning", base.places[found[0]], what, hint)


def _ids_of_none(base: KnowledgeBase) -> Iterator[Finding]:
    found = [number for number, entity in enumerate(base.entities) if entity.entity_id in NO_ENTITY]
    if found:
        ids = _listed([repr(base.entities[number].entity_id) for number in found])
        what = f"{counted(len(found), 'id')} that corpora write for no entity: {ids}"
        hint = "leave it out if it means none, else give it another id: mentions of it are read as NIL"
        yield Finding("id of none", "warning", base.places[found[0]], what, hint)


def _shared_ids(base: KnowledgeBase) -> Iterator[Finding]:
    """Further ids of several entities; one that is an entity's own is of that alone."""
    own = {entity.entity_id for entity in base.entities}
    owners: dict[str, list[int]] = {}
    for number, entity in enumerate(base.entities):
        for id_ in entity.other_ids:
            if id_ not in own:
                owners.setdefault(id_, []).append(number)
    shared = {id_: numbers for id_, numbers in owners.items() if len(numbers) > 1}
    if shared:
        id_, numbers = next(iter(shared.items()))
        what = (
            f"{counted(len(shared), 'further id')} of several entities: {_listed(list(map(repr, shared)))}; "
            f"{id_!r} is one of {_listed([repr(base.entities[number].entity_id) for number in numbers])}"
        )
        hint = "leave it to one of them: mentions with such an id count as those of the first"
        yield Finding("shared id", "warning", base.places[numbers[1]], what, hint)


def _ambiguous(base: KnowledgeBase) -> Iterator[Finding]:
    owners: dict[str, int] = {}
    shared: dict[str, list[int]] = {}
    for number, entity in enumerate(base.entities):
        for name in {normal_form(name).casefold() for name in (entity.name, *entity.aliases)}:
            first = owners.setdefault(name, number)
            if first != number:
                shared.setdefault(name, [first]).append(number)
    for name, numbers in shared.items():
        ids = [repr(base.entities[number].entity_id) for number in numbers]
        what = f"{short(name)} is a name of {len(ids)} entities, ignoring case: {_listed(ids)}"
        hint = "nothing if all are meant; a linker cannot tell them apart by this name"
        yield Finding("ambiguous name", "warning", base.places[numbers[1]], what, hint)


def _without_alias(base: KnowledgeBase) -> Iterator[Finding]:
    bare = [number for number, entity in enumerate(base.entities) if not entity.aliases]
    if bare:
        ids = _listed([repr(base.entities[number].entity_id) for number in bare])
        what = f"{len(bare)} of {len(base.entities)} entities have no alias: {ids}"
        hint = "add other spellings; a standardizer learns from them"
        yield Finding("without alias", "warning", base.places[bare[0]], what, hint)


def _parent_findings(base: KnowledgeBase) -> Iterator[Finding]:
    places = {e.entity_id: where for e, where in zip(base.entities, base.places, strict=True)}
    for id_, parents in base.parents.items():
        for parent in parents:
            if parent not in places:
                what = f"the parent {parent!r} of {id_!r} is no entity"
                yield Finding("unknown parent", "warning", places[id_], what, "add it, or correct the id")
    for cycle in find_cycles(base.parents):
        steps = [*cycle[:SHOWN], *(["..."] if len(cycle) > SHOWN else []), cycle[0]]
        what = f"its parents lead back to it: {' -> '.join(steps)}"
        yield Finding("cycle", "error", places.get(cycle[0], ""), what, "remove one of these parents")


def _listed(items: Sequence[str]) -> str:
    return ", ".join(items[:SHOWN]) + (f" and {len(items) - SHOWN} more" if len(items) > SHOWN else "")
