"""The resolver `rules`: names by parts, phrases by heads, pronouns by gender, number and distance.

It needs no model and is for English. Salience follows Hobbs (1978, Resolving Pronoun References) as far as
that needs no parse: nearer sentences first, in a sentence from left to right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice

from rayner.data.schema import Document, Span
from rayner.supervision.pronouns import PRONOUNS, REFLEXIVE, Agreement
from rayner.supervision.resolvers import lexicon
from rayner.supervision.resolvers.noun_phrases import Found, Tokens, find_mentions

PHRASE_SENTENCES = 20
"""How many sentences back a noun phrase looks for its head."""
PRONOUN_SENTENCES = 3
MOST_BACK = 500
"""How many mentions a mention looks back at."""
_MOST_PARTS = 8
_OBJECTS = frozenset(["him", "her", "them"])
"""Not `it`, which is a subject as often: `the bank said it failed`."""
_AFTER_HER = lexicon.words(
    "and but or as when while if that because before after in on at to from with by for of off up"
)
"""Words before which `her` is no possessive."""
_CLAUSES = lexicon.words(
    "and but or so yet that when while if because as though although since before after until then"
)
"""What a clause begins with, before its subject."""


@dataclass(slots=True)
class _Entity:
    """The mentions of a chain so far, and what they say together; `number` counts entities."""

    number: int
    mentions: list[Found] = field(default_factory=list)
    agreement: Agreement = field(default_factory=Agreement)
    names: set[frozenset[str]] = field(default_factory=set)

    def add(self, mention: Found) -> None:
        self.mentions.append(mention)
        old, new = self.agreement, mention.agreement
        if len(self.mentions) == 1:
            self.agreement = new
            return
        plural = new.plural if old.plural is None else old.plural
        gender = new.gender if old.gender in (None, "p") and new.gender else old.gender
        self.agreement = Agreement(new.person if mention.kind != "pronoun" else old.person, plural, gender)


_Mentioned = tuple[Found, _Entity]


@dataclass(frozen=True, slots=True)
class _Entities:
    """The entities of a text so far, by what a mention looks for: no mention looks at all of them.

    Attributes:
        recent: all mentions, in the order of their words, as all lists of mentions here.
        by_name: the parts of a name -> who is called so; `by_part`, one of its words -> who has it in a name.
        by_head: a head word -> phrases with it.
        by_speaker: agreement and quotation -> pronouns; those after which their entity was mentioned again
            may be missing.
    """

    tokens: Tokens
    all: list[_Entity] = field(default_factory=list)
    recent: list[_Mentioned] = field(default_factory=list)
    by_name: dict[frozenset[str], dict[int, _Entity]] = field(default_factory=lambda: defaultdict(dict))
    by_part: dict[str, dict[int, _Entity]] = field(default_factory=lambda: defaultdict(dict))
    by_head: dict[str, list[_Mentioned]] = field(default_factory=lambda: defaultdict(list))
    by_speaker: dict[tuple[Agreement, int], list[_Mentioned]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def add(self, mention: Found, entity: _Entity | None) -> None:
        """A mention of an entity, or of a new one."""
        tokens = self.tokens
        if entity is None:
            entity = _Entity(len(self.all))
            self.all.append(entity)
        entity.add(mention)
        self.recent.append((mention, entity))
        if mention.kind == "name":
            parts = _parts(tokens, mention)
            entity.names.add(parts)
            for index in (self.by_name[parts], *(self.by_part[word] for word in parts)):
                index[entity.number] = entity
        elif mention.kind == "phrase":
            self.by_head[tokens.lower[mention.head]].append((mention, entity))
        else:
            self.by_speaker[_speaker(tokens, mention)].append((mention, entity))

    def named_within(self, parts: frozenset[str]) -> Iterator[_Entity]:
        """Those of whose names one holds all of the parts, or all hold nothing but some of them: John, who is
        John Smith, is not John Brown."""
        # Whose name holds all of them is among those with the rarest: a first name may have thousands.
        rarest = min((self.by_part.get(word, {}) for word in parts), key=len)
        yield from (entity for entity in rarest.values() if any(parts <= name for name in entity.names))
        if len(parts) > _MOST_PARTS:
            sharing = {n: entity for word in parts for n, entity in self.by_part.get(word, {}).items()}
        else:
            some = (frozenset(part) for size in range(1, len(parts)) for part in combinations(parts, size))
            sharing = {n: entity for part in some for n, entity in self.by_name.get(part, {}).items()}
        yield from (entity for entity in sharing.values() if all(n <= parts for n in entity.names))

    def back(self, mentions: list[_Mentioned], mention: Found, sentences: int) -> Iterator[_Mentioned]:
        """Those that end before a mention, the last first, down to so many sentences before it; at most
        `MOST_BACK`, which no sentence holds, but a text without a full stop may."""
        sentence = self.tokens.sentence
        for other, entity in islice(reversed(mentions), MOST_BACK):
            if sentence[mention.first] - sentence[other.first] > sentences:
                return
            if other.last < mention.first:
                yield other, entity


class RuleResolver:
    """Chains by rule."""

    name = "rules"
    version = "rules"

    def __call__(self, document: Document) -> list[list[Span]]:
        """The chains of an English text."""
        tokens = Tokens.of(document)
        entities = _Entities(tokens)
        for mention in find_mentions(tokens):
            entities.add(mention, _antecedent(entities, mention))
        chains = (entity.mentions for entity in entities.all if len(entity.mentions) > 1)
        return [[(tokens.spans[m.first][0], tokens.spans[m.last][1]) for m in chain] for chain in chains]


def _antecedent(entities: _Entities, mention: Found) -> _Entity | None:
    if mention.kind == "name":
        return _by_name(entities, mention)
    if mention.kind == "phrase":
        return None if mention.is_indefinite else _by_head(entities, mention)
    if mention.agreement.person < 3:
        return _by_speaker(entities, mention)
    return _by_agreement(entities, mention)


def _by_name(entities: _Entities, mention: Found) -> _Entity | None:
    """The last entity of that name, or whose fullest name holds all parts of it, or the other way round."""
    parts = _parts(entities.tokens, mention)
    called = entities.by_name.get(parts, {})
    alike = [entity for entity in called.values() if _agree(entity, mention)]
    if not alike:
        alike = [entity for entity in entities.named_within(parts) if _agree(entity, mention)]
    return max(alike, key=lambda entity: (entity.mentions[-1].first, -entity.number), default=None)


def _by_head(entities: _Entities, mention: Found) -> _Entity | None:
    """The last entity with that head, whose possessor, if any, is called the same."""
    tokens = entities.tokens
    possessor = _possessor(tokens, mention)
    phrases = entities.by_head.get(tokens.lower[mention.head], [])
    for other, entity in entities.back(phrases, mention, PHRASE_SENTENCES):
        if _possessor(tokens, other) == possessor and _modifiers_fit(tokens, other, mention):
            return entity
    return None


def _by_speaker(entities: _Entities, mention: Found) -> _Entity | None:
    """The last of the same person and number in the same quotation, or, outside of any, in the text."""
    spoken = entities.by_speaker.get(_speaker(entities.tokens, mention), [])
    while spoken:
        other, entity = spoken[-1]
        if entity.mentions[-1] == other:
            return entity
        spoken.pop()  # what was said of it since then is in another quotation, or no pronoun
    return None


def _by_agreement(entities: _Entities, mention: Found) -> _Entity | None:
    """Of those that agree, one in the nearest sentence; in it, one of the same pronoun, or the first. Whom a
    word parts from an object, as in `Peter saw him`, is somebody else."""
    tokens = entities.tokens
    sentence, family = tokens.sentence[mention.first], PRONOUNS[tokens.lower[mention.first]]
    reach = 0 if tokens.lower[mention.first] in REFLEXIVE else PRONOUN_SENTENCES
    best: tuple[int, bool, int, int] | None = None
    chosen = None
    same_sentence = entities.back(entities.recent, mention, 0)
    subjects = {entity.number for other, entity in same_sentence if _is_subject_of(tokens, other, mention)}
    for other, entity in entities.back(entities.recent, mention, reach):
        back = sentence - tokens.sentence[other.first]
        if best is not None and back > best[0]:
            break
        if _agree(entity, mention) and entity.number not in subjects:
            same = other.kind == "pronoun" and PRONOUNS[tokens.lower[other.first]] == family
            rank = back, not same, other.first, entity.number
            if best is None or rank < best:
                best, chosen = rank, entity
    return chosen


def _is_subject_of(tokens: Tokens, other: Found, mention: Found) -> bool:
    """Whether one word parts a mention that begins a clause from an object."""
    place, word = mention.first, tokens.lower[mention.first]
    if word not in _OBJECTS or other.last != place - 2:
        return False
    following, before = "".join(tokens.lower[place + 1 : place + 2]), other.first - 1
    is_object = word != "her" or not following[:1].isalnum() or following in _AFTER_HER
    begins = tokens.begins_sentence(other.first) or tokens.lower[before] in _CLAUSES
    is_parted = not (tokens.lower[before][0].isalnum() or tokens.is_possessive(before))
    return is_object and (begins or is_parted)


def _speaker(tokens: Tokens, pronoun: Found) -> tuple[Agreement, int]:
    return pronoun.agreement, tokens.quotation[pronoun.first]


def _agree(entity: _Entity, mention: Found) -> bool:
    return entity.agreement.agrees(mention.agreement)


def _parts(tokens: Tokens, name: Found) -> frozenset[str]:
    """The words of a name but its titles."""
    words = tokens.lower[name.first : name.last + 1]
    return frozenset(w for w in words if w[0].isalnum() and w not in lexicon.TITLES) or frozenset(words)


def _possessor(tokens: Tokens, phrase: Found) -> tuple[str, ...]:
    if phrase.determiner == "'s":
        return tuple(tokens.lower[phrase.first : _after_possessor(tokens, phrase)])
    return (phrase.determiner,) if phrase.determiner in PRONOUNS else ()


def _modifiers_fit(tokens: Tokens, before: Found, after: Found) -> bool:
    """Whether the later phrase says nothing that the earlier one has not said."""
    said = set(tokens.lower[before.first : before.head])
    return set(tokens.lower[after.first + 1 : after.head]) <= said


def _after_possessor(tokens: Tokens, phrase: Found) -> int:
    return next(place for place in range(phrase.first, phrase.head) if tokens.is_possessive(place))
