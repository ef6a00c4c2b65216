"""What sentences help to recognize an entity, and how to ask a language model for one, or to make one.

The three kinds of Amalvy et al. 2023 (EMNLP), table 1, for any label set. Without a model, sentences are made
from templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rayner.config import PromptSettings


@dataclass(frozen=True, slots=True)
class ContextKind:
    """A kind of context.

    `prompt` and `templates` may hold `{entity}`, `{sentence}` and `{thing}`: what an entity of that type is.
    A template may also hold a name of `WORDS`, in place of which one of its words is drawn.
    """

    name: str
    prompt: str
    templates: tuple[str, ...]
    types: frozenset[str] | None = None
    """None is all types."""


WORDS: Mapping[str, tuple[str, ...]] = {
    "trait": ("famous", "feared", "respected", "old", "quiet", "wealthy", "peculiar", "celebrated", "modest"),
    "person": ("Martin", "the captain", "Lady Ashby", "Eleanor", "the doctor", "old Tobias", "the stranger"),
    "feeling": ("with a smile", "in silence", "without a word", "in great haste", "at dusk", "that morning"),
    "deed": (
        "laughed aloud",
        "opened the letter",
        "left the room",
        "drew a chair to the fire",
        "shook hands",
    ),
    "fact": ("everyone had heard of", "few people knew well", "had changed over the years", "was spoken of"),
}

DESCRIPTION = ContextKind(
    "description",
    "'{sentence}' - In this sentence, {entity} is {thing}. Invent one sentence that describes it and "
    "mentions the name {entity}. Write only this sentence.",
    (
        "{entity} was {thing} that {fact} in those parts.",
        "{entity} is a {trait} name, and rightly so: it is {thing} like no other.",
        "Of all that I have seen, {entity} is {thing} that I shall never forget.",
        "They said of {entity} that there had never been {thing} so {trait}.",
    ),
)
ACTION = ContextKind(
    "action",
    "Invent one sentence in which the person {entity} does something, and mention the name {entity}. "
    "Write only this sentence.",
    (
        "{entity} {deed} {feeling}.",
        "{feeling}, {entity} {deed} and turned to {person}.",
        '"I will see to it," said {entity}, who {deed} {feeling}.',
        "{entity} looked at {person} {feeling} and {deed}.",
    ),
    frozenset({"PER"}),
)
MOVEMENT = ContextKind(
    "movement",
    "Invent one sentence in which a person whom you invent goes to {entity}. Mention the names of the "
    "person and of {entity}. Write only this sentence.",
    (
        "{person} set out for {entity} {feeling}.",
        "{feeling}, {person} arrived in {entity}.",
        "{person} had travelled to {entity} before, and knew the way.",
        "It took {person} three days to reach {entity}.",
    ),
    frozenset({"LOC"}),
)
KINDS = (DESCRIPTION, ACTION, MOVEMENT)

THINGS: Mapping[str, str] = {"PER": "a person", "LOC": "a place", "ORG": "an organisation"}
"""What an entity of a type is, in a prompt; others are `a` and the name of the type."""


def kinds_from(settings: PromptSettings) -> list[ContextKind]:
    """The kinds of a label set."""
    return [
        ContextKind(
            kind.name, kind.prompt, kind.templates, None if kind.types is None else frozenset(kind.types)
        )
        for kind in settings.kinds
    ]


def kinds_of(type_: str, kinds: Sequence[ContextKind] = KINDS) -> list[ContextKind]:
    """The kinds that fit a type."""
    return [kind for kind in kinds if kind.types is None or type_ in kind.types]


def prompt_of(
    kind: ContextKind, sentence: str, entity: str, type_: str, things: Mapping[str, str] = THINGS
) -> str:
    """The text that asks a model for a context of this kind."""
    return _filled(kind.prompt, {"sentence": sentence, "entity": entity, "thing": _thing(type_, things)})


def made_of_template(
    kind: ContextKind,
    sentence: str,
    entity: str,
    type_: str,
    seed: int,
    things: Mapping[str, str] = THINGS,
) -> str:
    """A context of this kind without a model; the same for the same entity and seed."""
    rng = np.random.default_rng((seed, *entity.encode(), *kind.name.encode()))
    values = {name: words[rng.integers(len(words))] for name, words in WORDS.items()}
    values |= {"sentence": sentence, "entity": entity, "thing": _thing(type_, things)}
    made = _filled(kind.templates[rng.integers(len(kind.templates))], values)
    return made[0].upper() + made[1:]


def _thing(type_: str, things: Mapping[str, str]) -> str:
    name = type_.replace("_", " ").lower()
    return things.get(type_) or ("an " if name[:1] in "aeiou" else "a ") + name


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its names replaced, once each: a sentence may itself hold braces."""
    parts = template.split("{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, closed, rest = part.partition("}")
        filled.append(values[name] + rest if closed and name in values else "{" + part)
    return "".join(filled)
