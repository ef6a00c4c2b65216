"""What sentences help to recognize an entity, and how to ask a language model for one, or to make one.

The three kinds of Amalvy et al. 2023 (EMNLP), table 1, for any label set. Without a model, sentences are made
from templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rayner.config import ContextKindSettings

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

DESCRIPTION = ContextKindSettings(
    name="description",
    prompt="'{sentence}' - In this sentence, {entity} is {thing}. Invent one sentence that describes it and "
    "mentions the name {entity}. Write only this sentence.",
    templates=(
        "{entity} was {thing} that {fact} in those parts.",
        "{entity} is a {trait} name, and rightly so: it is {thing} like no other.",
        "Of all that I have seen, {entity} is {thing} that I shall never forget.",
        "They said of {entity} that there had never been {thing} so {trait}.",
    ),
)
ACTION = ContextKindSettings(
    name="action",
    prompt="Invent one sentence in which the person {entity} does something, and mention the name {entity}. "
    "Write only this sentence.",
    templates=(
        "{entity} {deed} {feeling}.",
        "{feeling}, {entity} {deed} and turned to {person}.",
        '"I will see to it," said {entity}, who {deed} {feeling}.',
        "{entity} looked at {person} {feeling} and {deed}.",
    ),
    types=("PER",),
)
MOVEMENT = ContextKindSettings(
    name="movement",
    prompt="Invent one sentence in which a person whom you invent goes to {entity}. Mention the names of the "
    "person and of {entity}. Write only this sentence.",
    templates=(
        "{person} set out for {entity} {feeling}.",
        "{feeling}, {person} arrived in {entity}.",
        "{person} had travelled to {entity} before, and knew the way.",
        "It took {person} three days to reach {entity}.",
    ),
    types=("LOC",),
)
KINDS = (DESCRIPTION, ACTION, MOVEMENT)

THINGS: Mapping[str, str] = {"PER": "a person", "LOC": "a place", "ORG": "an organisation"}
"""What an entity of a type is, in a prompt; others are `a` and the name of the type."""


def kinds_of(type_: str, kinds: Sequence[ContextKindSettings] = KINDS) -> list[ContextKindSettings]:
    """The kinds that fit a type."""
    return [kind for kind in kinds if kind.types is None or type_ in kind.types]


def prompt_of(
    kind: ContextKindSettings, sentence: str, entity: str, type_: str, things: Mapping[str, str] = THINGS
) -> str:
    """The text that asks a model for a context of this kind."""
    return _filled(kind.prompt, {"sentence": sentence, "entity": entity, "thing": _thing(type_, things)})


def made_of_template(
    kind: ContextKindSettings,
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
