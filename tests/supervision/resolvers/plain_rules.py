"""The links of the resolver `rules` as they are defined: each mention looks at all entities."""

from __future__ import annotations

from collections.abc import Sequence

from rayner.data.schema import Document, Span
from rayner.supervision.pronouns import PRONOUNS, REFLEXIVE
from rayner.supervision.resolvers import rules
from rayner.supervision.resolvers.noun_phrases import Found, Tokens, find_mentions

Entity = rules._Entity


def plain_chains(document: Document) -> list[list[Span]]:
    tokens = Tokens.of(document)
    entities: list[Entity] = []
    for mention in find_mentions(tokens):
        entity = _antecedent(tokens, entities, mention)
        if entity is None:
            entity = Entity(len(entities))
            entities.append(entity)
        entity.add(mention)
        if mention.kind == "name":
            entity.names.add(rules._parts(tokens, mention))
    chains = (entity.mentions for entity in entities if len(entity.mentions) > 1)
    return [[(tokens.spans[m.first][0], tokens.spans[m.last][1]) for m in chain] for chain in chains]


def _antecedent(tokens: Tokens, entities: Sequence[Entity], mention: Found) -> Entity | None:
    if mention.kind == "name":
        return _by_name(tokens, entities, mention)
    if mention.kind == "phrase":
        return None if mention.is_indefinite else _by_head(tokens, entities, mention)
    if mention.agreement.person < 3:
        return _by_speaker(tokens, entities, mention)
    return _by_agreement(tokens, entities, mention)


def _by_name(tokens: Tokens, entities: Sequence[Entity], mention: Found) -> Entity | None:
    parts = rules._parts(tokens, mention)
    agreeing = [entity for entity in entities if entity.agreement.agrees(mention.agreement)]
    called = [entity for entity in agreeing if parts in entity.names]
    fullest = [max(entity.names, key=len, default=frozenset()) for entity in agreeing]
    within = [
        e for e, name in zip(agreeing, fullest, strict=True) if name and (name <= parts or parts <= name)
    ]
    return max(called or within, key=lambda entity: entity.mentions[-1].first, default=None)


def _by_head(tokens: Tokens, entities: Sequence[Entity], mention: Found) -> Entity | None:
    fitting = [
        (other.first, entity.number)
        for entity in entities
        for other in entity.mentions
        if other.kind == "phrase"
        and tokens.sentence[mention.first] - tokens.sentence[other.first] <= rules.PHRASE_SENTENCES
        and tokens.lower[other.head] == tokens.lower[mention.head]
        and other.last < mention.first
        and rules._possessor(tokens, other) == rules._possessor(tokens, mention)
        and rules._modifiers_fit(tokens, other, mention)
    ]
    return entities[max(fitting)[1]] if fitting else None


def _by_speaker(tokens: Tokens, entities: Sequence[Entity], mention: Found) -> Entity | None:
    spoken = [
        (entity.mentions[-1].first, entity.number)
        for entity in entities
        if entity.mentions[-1].kind == "pronoun"
        and entity.mentions[-1].agreement == mention.agreement
        and tokens.quotation[entity.mentions[-1].first] == tokens.quotation[mention.first]
    ]
    return entities[max(spoken)[1]] if spoken else None


def _by_agreement(tokens: Tokens, entities: Sequence[Entity], mention: Found) -> Entity | None:
    word = tokens.lower[mention.first]
    reach = 0 if word in REFLEXIVE else rules.PRONOUN_SENTENCES
    ranks = []
    for entity in entities:
        here = [m for m in entity.mentions if tokens.sentence[m.first] == tokens.sentence[mention.first]]
        if any(rules._is_subject_of(tokens, other, mention) for other in here):
            continue
        for other in entity.mentions:
            back = tokens.sentence[mention.first] - tokens.sentence[other.first]
            if back > reach or other.last >= mention.first or not entity.agreement.agrees(mention.agreement):
                continue
            same = other.kind == "pronoun" and PRONOUNS[tokens.lower[other.first]] == PRONOUNS[word]
            ranks.append((back, not same, other.first, entity.number))
    return entities[min(ranks)[3]] if ranks else None
