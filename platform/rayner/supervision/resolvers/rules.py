"""The resolver `rules`: names by parts, phrases by heads, pronouns by gender, number and distance.

It needs no model and is for English. Salience follows Hobbs (1978, Resolving Pronoun References) as far as
that needs no parse: nearer sentences first, in a sentence from left to right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rayner.data.schema import Document, Span
from rayner.supervision.pronouns import PRONOUNS, REFLEXIVE, Agreement
from rayner.supervision.resolvers import lexicon
from rayner.supervision.resolvers.noun_phrases import Found, Tokens, find_mentions

PHRASE_SENTENCES = 20
"""How many sentences back a noun phrase looks for its head."""
PRONOUN_SENTENCES = 3


@dataclass(slots=True)
class _Entity:
    """The mentions of a chain so far, and what they say together."""

    mentions: list[Found] = field(default_factory=list)
    agreement: Agreement = field(default_factory=Agreement)
    names: list[frozenset[str]] = field(default_factory=list)

    def add(self, mention: Found) -> None:
        self.mentions.append(mention)
        old, new = self.agreement, mention.agreement
        if len(self.mentions) == 1:
            self.agreement = new
            return
        plural = new.plural if old.plural is None else old.plural
        gender = new.gender if old.gender in (None, "p") and new.gender else old.gender
        self.agreement = Agreement(new.person if mention.kind != "pronoun" else old.person, plural, gender)


class RuleResolver:
    """Chains by rule."""

    name = "rules"
    version = "rules"

    def __call__(self, document: Document) -> list[list[Span]]:
        """The chains of an English text."""
        tokens = Tokens.of(document)
        entities: list[_Entity] = []
        for mention in find_mentions(tokens):
            entity = _antecedent(tokens, entities, mention)
            if entity is None:
                entity = _Entity()
                entities.append(entity)
            entity.add(mention)
            if mention.kind == "name":
                entity.names.append(_parts(tokens, mention))
        chains = (entity.mentions for entity in entities if len(entity.mentions) > 1)
        return [[(tokens.spans[m.first][0], tokens.spans[m.last][1]) for m in chain] for chain in chains]


def _antecedent(tokens: Tokens, entities: list[_Entity], mention: Found) -> _Entity | None:
    if mention.kind == "name":
        return _by_name(tokens, entities, mention)
    if mention.kind == "phrase":
        return None if mention.is_indefinite else _by_head(tokens, entities, mention)
    if mention.agreement.person < 3:
        return _by_speaker(tokens, entities, mention)
    return _by_agreement(tokens, entities, mention)


def _by_name(tokens: Tokens, entities: Iterable[_Entity], mention: Found) -> _Entity | None:
    """The last entity of that name, or one of whose names holds all parts of it, or the other way round."""
    parts = _parts(tokens, mention)
    same = [entity for entity in entities if parts in entity.names and _agree(entity, mention)]
    alike = same or [
        entity
        for entity in entities
        if any(parts <= name or name <= parts for name in entity.names if name and parts)
        and _agree(entity, mention)
    ]
    return max(alike, key=lambda entity: entity.mentions[-1].first, default=None)


def _by_head(tokens: Tokens, entities: Iterable[_Entity], mention: Found) -> _Entity | None:
    """The last entity with that head, whose possessor, if any, is called the same."""
    head, sentence = tokens.lower[mention.head], tokens.sentence[mention.first]
    possessor = _possessor(tokens, mention)
    best: tuple[int, _Entity] | None = None
    for entity in entities:
        for other in reversed(entity.mentions):
            if sentence - tokens.sentence[other.first] > PHRASE_SENTENCES:
                break
            alike = other.kind == "phrase" and tokens.lower[other.head] == head and other.last < mention.first
            if alike and _possessor(tokens, other) == possessor and _modifiers_fit(tokens, other, mention):
                if best is None or other.first > best[0]:
                    best = other.first, entity
                break
    return best[1] if best else None


def _by_speaker(tokens: Tokens, entities: Iterable[_Entity], mention: Found) -> _Entity | None:
    """The last of the same person and number in the same quotation, or, outside of any, in the text."""
    spoken = tokens.quotation[mention.first]
    found = [
        (other.first, number, entity)
        for number, entity in enumerate(entities)
        for other in entity.mentions[-1:]
        if other.kind == "pronoun"
        and other.agreement == mention.agreement
        and tokens.quotation[other.first] == spoken
    ]
    return max(found)[2] if found else None


def _by_agreement(tokens: Tokens, entities: Iterable[_Entity], mention: Found) -> _Entity | None:
    """Of those that agree, one in the nearest sentence; in it, one of the same pronoun, or the first."""
    sentence, family = tokens.sentence[mention.first], PRONOUNS[tokens.lower[mention.first]]
    reach = 0 if tokens.lower[mention.first] in REFLEXIVE else PRONOUN_SENTENCES
    best: tuple[int, bool, int] | None = None
    chosen = None
    for entity in entities:
        if not _agree(entity, mention):
            continue
        for other in reversed(entity.mentions):
            back = sentence - tokens.sentence[other.first]
            if back > reach:
                break
            if other.last >= mention.first:
                continue
            same = other.kind == "pronoun" and PRONOUNS[tokens.lower[other.first]] == family
            rank = back, not same, other.first
            if best is None or rank < best:
                best, chosen = rank, entity
    return chosen


def _agree(entity: _Entity, mention: Found) -> bool:
    return entity.agreement.agrees(mention.agreement)


def _parts(tokens: Tokens, name: Found) -> frozenset[str]:
    """The words of a name but its titles."""
    words = tokens.lower[name.first : name.last + 1]
    return frozenset(w for w in words if w[0].isalnum() and w not in lexicon.TITLES) or frozenset(words)


def _possessor(tokens: Tokens, phrase: Found) -> tuple[str, ...]:
    if phrase.determiner == "'s":
        return tuple(tokens.lower[phrase.first : phrase.head])
    return (phrase.determiner,) if phrase.determiner in PRONOUNS else ()


def _modifiers_fit(tokens: Tokens, before: Found, after: Found) -> bool:
    """Whether the later phrase says nothing that the earlier one has not said."""
    said = set(tokens.lower[before.first : before.head])
    return set(tokens.lower[after.first + 1 : after.head]) <= said
