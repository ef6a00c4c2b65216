"""A language model that answers on the user's own machines: no text leaves them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rayner.data.readers.base import is_encodable
from rayner.supervision.endpoint import EMPTY
from rayner.supervision.ledger import Ledger

Answers = Callable[[Sequence[str], Sequence[int]], Iterable[tuple[int, str]]]
"""Prompts, and for each the seed of what is drawn -> the place of a prompt and its answer, as they come."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model, and what runs it.

    Args:
        name: its Hugging Face id or its folder.
        runs: what runs it, by name: the answers of another are other answers.
    """

    name: str
    runs: str
    answers: Answers
    temperature: float
    max_tokens: int

    @property
    def host(self) -> str:
        """Where it answers, in words."""
        return f"{self.runs}, on this cluster"

    def body(self, prompt: str) -> dict[str, Any]:
        """What an answer depends on."""
        return {
            "runs": self.runs,
            "model": self.name,
            "prompt": prompt,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }

    def ask(self, prompts: Mapping[str, str], book: Ledger) -> dict[str, str]:
        """Note the answers to prompts as they come; why each of the others has none.

        Args:
            prompts: by their keys in the ledger, which are hexadecimal: the seed goes by them, so that
                another attempt at a prompt is another draw, and the same attempt the same.
        """
        keys = list(prompts)
        dropped: dict[str, str] = {}
        for place, answer in self.answers(list(prompts.values()), [int(key[:8], 16) for key in keys]):
            text = answer.strip() if is_encodable(answer) else ""
            book.add(keys[place], text or None)
            if not text:
                dropped[keys[place]] = EMPTY
        return dropped
