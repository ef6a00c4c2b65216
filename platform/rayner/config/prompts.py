"""How contexts are asked for, or made, for the label set of a corpus (papers/001, table 1)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from rayner.config.base import Settings


class ContextKindSettings(Settings):
    """A kind of context: the `prompt` that asks a model for one, `templates` that make one without a model.

    Both hold `{entity}`, and may hold `{sentence}` and `{thing}`, what an entity of that type is; a template
    also a name of `rayner.supervision.context_prompts.WORDS`, in place of which one of its words is drawn.
    `types` are those that it is for; null is all.
    """

    name: Annotated[str, Field(min_length=1)]
    prompt: str
    templates: Annotated[tuple[str, ...], Field(min_length=1)]
    types: tuple[str, ...] | None = None

    @field_validator("prompt", "templates")
    @classmethod
    def _names_the_entity(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for text in (value,) if isinstance(value, str) else value:
            if "{entity}" not in text:
                raise ValueError(f"{text[:40]!r} does not mention {{entity}}")
        return value


class PromptSettings(Settings):
    """The kinds of contexts of a label set, and what an entity of each type is: `PER: a person`."""

    kinds: Annotated[tuple[ContextKindSettings, ...], Field(min_length=1)]
    things: dict[str, str] = Field(default_factory=dict)
