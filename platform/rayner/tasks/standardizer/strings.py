"""What a standardizer learns from: a knowledge base, and mentions of its entities."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rayner.config import MentionSettings, StandardizerRecipe
from rayner.config.recipe_files import corpus_paths
from rayner.counted import counted
from rayner.data.composites import readings
from rayner.data.entity_ids import entity_of_id
from rayner.data.knowledge_bases import Columns, KnowledgeBase, read_knowledge_base
from rayner.data.mention_readers import read_mention_strings
from rayner.data.mention_strings import MentionString, composed, fold
from rayner.data.schema import Entity
from rayner.data.string_hashes import fraction_of
from rayner.errors import InputError, KnowledgeBaseError, RecipeError
from rayner.retrieval.entity_table import EntityTable, entity_table
from rayner.retrieval.names import names_of

log = logging.getLogger(__name__)

DEV, NEGATIVES = "mentions.dev", "mentions.negatives"
"""The keys of files of which mentions without an entity are kept."""


@dataclass(frozen=True, slots=True)
class EntityStrings:
    """The strings of a recipe.

    `learned` are the entities with everything that they are to be recognized by, `indexed` those that `dev`
    is scored against, `mentions` those to learn from, repeats included. No string of `dev` is among them, nor
    among the strings of either that came from mentions.
    """

    learned: EntityTable
    indexed: EntityTable
    dev: Sequence[MentionString]
    mentions: Sequence[MentionString]


def load_entity_strings(recipe: StandardizerRecipe, sentences: bool = False) -> EntityStrings:
    """Read a recipe's knowledge base and mentions, and hold out its dev.

    Mentions whose ids the knowledge base lacks are left out. A mention of several entities, or a string that
    several entities have, is not learned from.

    Args:
        sentences: whether mentions of corpora have the sentences that they are in.

    Raises:
        RecipeError: a path that does not exist, mentions of other entities, or nothing to hold out.
        KnowledgeBaseError: a knowledge base that cannot be read, of fewer than two entities, or with more
            aliases than the index may have.
        CorpusError: mentions that cannot be read.
    """
    base = _knowledge_base(recipe)
    settings = recipe.mentions
    known = entity_of_id(base.entities)
    mentions = _mentions(settings.train, settings, known, "mentions.train", sentences)
    if settings.dev:
        dev = _distinct(_mentions(settings.dev, settings, known, DEV, sentences))
    else:
        dev = hold_out(mentions, base.entities, settings.dev_fraction)
    held_out = {fold(mention.text) for mention in dev}
    kept = [m for m in mentions if fold(m.text) not in held_out]
    names = _names_of(base.entities, recipe.aliases)
    learned = _unshared(with_mentions(names, [m for m in kept if len(m.entity_ids) == 1]))
    indexed = with_mentions(base.entities, _aliases(kept, settings) if settings.are_aliases else [])
    # What no index can hold is better said now than after an epoch.
    names_of(indexed, recipe.index)
    strangers = _read(settings.negatives, settings, NEGATIVES, sentences)
    known_strings = {fold(mention.text) for mention in (*mentions, *dev) if mention.entity_ids}
    negatives = _distinct(replace(m, entity_ids=()) for m in strangers if fold(m.text) not in known_strings)
    if known_ones := [m for m in strangers if fold(m.text) in known_strings]:
        what = "%s: %s left out, which other files say the entities of; the first: %r"
        log.warning(what, NEGATIVES, counted(len(known_ones), "mention"), known_ones[0].text)
    return EntityStrings(entity_table(learned), entity_table(indexed), [*dev, *negatives], kept)


def hold_out(
    mentions: Sequence[MentionString], entities: Iterable[Entity], fraction: float
) -> list[MentionString]:
    """A fraction of the distinct strings that are no name of any entity, case and spacing ignored.

    Which they are depends on each string alone, so that they stay out when others are added.

    Raises:
        RecipeError: there are none.
    """
    if not fraction:
        return []
    indexed = {fold(name) for entity in entities for name in (entity.name, *entity.aliases)}
    strange = [m for m in mentions if fold(m.text) not in indexed]
    chosen = _distinct(m for m in strange if fraction_of(m.text.casefold()) < fraction)
    if not chosen:
        given = counted(len(mentions), "mention")
        what = f"none of {given} can be held out; neither name nor alias: {len(strange)}"
        hint = "leave mentions out of the knowledge base's files, raise it, or name files as mentions.dev"
        raise RecipeError("mentions.dev_fraction", what, hint)
    return chosen


def with_mentions_of(
    base: KnowledgeBase, paths: Sequence[str], settings: MentionSettings, where: str
) -> list[Entity]:
    """The entities of a knowledge base with the mentions of files as aliases, as in training.

    Args:
        settings: the format of the files, and the types that are taken.
        where: what to call the files in messages.

    Raises:
        RecipeError: a path that does not exist, or mentions of other entities.
        CorpusError: mentions that cannot be read.
    """
    mentions = _mentions(paths, settings, entity_of_id(base.entities), where)
    return with_mentions(base.entities, _aliases(mentions, settings))


def _knowledge_base(recipe: StandardizerRecipe) -> KnowledgeBase:
    settings = recipe.knowledge_base
    paths = corpus_paths(settings.paths, "knowledge_base.paths")
    columns = Columns(**settings.columns.model_dump())
    base = read_knowledge_base(paths, settings.format, columns, settings.max_aliases)
    if len(base.entities) < 2:
        what = f"{len(base.entities)} entity: there is nothing to tell it from"
        raise KnowledgeBaseError(", ".join(settings.paths), what, "add others")
    if base.rejects:
        first = base.rejects[0]
        what = "cannot be read: %s (`rayner kb check` tells more); the first: %s: %s"
        log.warning(what, counted(len(base.rejects), "entity", "entities"), first.where, first.what)
    return base


def _read(
    paths: Sequence[str], settings: MentionSettings, where: str, sentences: bool = False
) -> list[MentionString]:
    if not paths:
        return []
    found: list[Path] = corpus_paths(paths, where)
    types = () if where == NEGATIVES else settings.types
    reading = read_mention_strings(found, settings.format, types, settings.abbreviations, sentences)
    if reading.rejects:
        first = reading.rejects[0]
        what = "%s: cannot be read: %s; the first: %s: %s"
        log.warning(what, where, counted(len(reading.rejects), "row"), first.where, first.what)
    return reading.mentions


def _mentions(
    paths: Sequence[str],
    settings: MentionSettings,
    known: Callable[[str], str | None],
    where: str,
    sentences: bool = False,
) -> list[MentionString]:
    """The mentions with the ids of the knowledge base; those without any of them are counted."""
    given = _read(paths, settings, where, sentences)
    found, unknown, nil = [], [], 0
    for mention in (m.parted_for(known) for m in given):
        meant = [known(id_) for id_ in mention.entity_ids]
        ids = tuple(dict.fromkeys(id_ for id_ in meant if id_ is not None))
        # Of a mention of two entities, knowing one is not enough to learn from, and enough to be right.
        if ids and (where == DEV or None not in meant):
            found.append(replace(mention, entity_ids=ids))
        elif mention.entity_ids:
            unknown.append(mention)
        elif where == DEV:
            found.append(mention)
        else:
            nil += 1
    if unknown:
        example = f"{unknown[0].text!r} is of {'|'.join(unknown[0].entity_ids)}"
        mentions = counted(len(given), "mention")
        what = f"the knowledge base lacks the ids of {len(unknown)} of {mentions}: {example}"
        if not found:
            hint = "name the knowledge base that their ids are of"
            raise RecipeError(where, what, hint)
        log.warning("%s: %s", where, what)
    if nil:
        log.info("%s: %s without an entity (NIL)", where, counted(nil, "mention"))
    return found


def _aliases(mentions: Iterable[MentionString], settings: MentionSettings) -> list[MentionString]:
    """The mentions whose strings are names of their entities: where composites are split, none of them is."""
    return [m for m in mentions if not (settings.composites and len(m.entity_ids) > 1 and readings(m.text))]


def _distinct(mentions: Iterable[MentionString]) -> list[MentionString]:
    """Each string once, with the entities of all its mentions, and the type and the sentence of the first."""
    ids: dict[str, dict[str, None]] = {}
    first: dict[str, MentionString] = {}
    for mention in mentions:
        ids.setdefault(mention.text, {}).update(dict.fromkeys(mention.entity_ids))
        first.setdefault(mention.text, mention)
    return [replace(first[text], entity_ids=tuple(of), whole=None) for text, of in ids.items()]


def _names_of(entities: Iterable[Entity], aliases: bool) -> list[Entity]:
    """What is learned of the entities: their names and aliases, `composed` as search has them."""
    found = []
    for entity in entities:
        names = dict.fromkeys(map(composed, (entity.name, *(entity.aliases if aliases else ()))))
        name, *others = names
        found.append(_named(entity, name, tuple(others)))
    return found


def with_mentions(entities: Sequence[Entity], mentions: Iterable[MentionString]) -> list[Entity]:
    """The entities with their mentions as aliases."""
    texts: Mapping[str, dict[str, None]] = {entity.entity_id: {} for entity in entities}
    for mention in mentions:
        for entity_id in mention.entity_ids:
            texts[entity_id][mention.text] = None
    found = []
    for entity in entities:
        aliases = dict.fromkeys((*entity.aliases, *texts[entity.entity_id]))
        aliases.pop(entity.name, None)
        found.append(_named(entity, entity.name, tuple(aliases)))
    return found


def _unshared(entities: Sequence[Entity]) -> list[Entity]:
    """The entities without strings that another has too: they would be asked to be near and far at once.

    A name that others have as an alias stays with its entity alone. Of one that others have as their name, an
    alias takes the place; an entity without one has nothing to learn from.
    """
    owners = Counter(name for e in entities for name in {fold(n) for n in (e.name, *e.aliases)})
    named = Counter(fold(e.name) for e in entities)
    kept, dropped = list[Entity](), 0
    for entity in entities:
        aliases = [alias for alias in entity.aliases if owners[fold(alias)] == 1]
        names = [entity.name, *aliases] if named[fold(entity.name)] == 1 else aliases
        dropped += 1 + len(entity.aliases) - len(names)
        if names:
            kept.append(_named(entity, names[0], tuple(names[1:])))
    if dropped:
        log.info("not learned from: %s of several entities", counted(dropped, "string"))
    return kept


def _named(entity: Entity, name: str, aliases: tuple[str, ...]) -> Entity:
    # Of a large knowledge base, most entities stay as they are: copies would be most of its memory.
    same = (name, aliases) == (entity.name, entity.aliases)
    return entity if same else replace(entity, name=name, aliases=aliases)


def require_learnable(strings: EntityStrings) -> None:
    """Refuse strings that teach nothing.

    Raises:
        InputError: no entity has a second string that is its own alone.
    """
    if not any(entity.aliases for entity in strings.learned):
        what, hint = "no entity has an alias or a mention that no other entity has", "name mentions.train"
        raise InputError("mentions", what, hint)
