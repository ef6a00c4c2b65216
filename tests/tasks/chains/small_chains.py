"""Stories with coreference chains, small enough to learn from within a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rayner.data.schema import Document, Mention, document_to_row

PEOPLE = (("Ada", "she"), ("Kurt", "he"), ("Emmy Noether", "she"), ("Alan", "he"), ("Grace Hopper", "she"))
THINGS = ("the old engine", "the proof", "the letter", "the ship", "the lamp in the hall")


def story(number: int, chain: str = "") -> Document:
    """A text with two chains of two mentions or more, of unequal lengths, and a mention that is alone."""
    (name, pronoun), thing = PEOPLE[number % len(PEOPLE)], THINGS[number // 2 % len(THINGS)]
    text, mentions = "", []
    parts: list[tuple[str, str | None]] = [(name, "1"), (" saw ", None), (thing, "2"), (" and ", None)]
    parts += [(pronoun, "1"), (" took ", None), ("it", "2"), (" to ", None), ("Oslo", "3"), (".", None)]
    for _ in range(number % 4):
        parts += [(" Then ", None), (pronoun, "1"), (" slept for a very long time .", None)]
    for words, of in parts:
        if of is not None:
            mentions.append(Mention(len(text), len(text) + len(words), "mention", chain=f"{chain}{of}"))
        text += words
    return Document(f"story{number}", text, tuple(mentions))


def chains_recipe(folder: Path, **parts: Any) -> dict[str, Any]:
    """A recipe with a small untrained encoder; its files lie in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, numbers in (("train", range(14)), ("dev", range(14, 20))):
        rows = [json.dumps(document_to_row(story(number))) + "\n" for number in numbers]
        (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    values: dict[str, Any] = {
        "task": "chains",
        "encoder": "random:32x2",
        "corpus": {"train": [str(folder / "train.jsonl")], "dev": [str(folder / "dev.jsonl")]},
        "windows": {"length": 16, "overlap": 4},
        "model": {"dropout": 0.0},
        "training": {"epochs": 1, "tokens_per_step": 60, "learning_rate": 1e-3, "log_every": 1},
    }
    for key, changes in parts.items():
        values[key] = {**values[key], **changes} if isinstance(values.get(key), dict) else changes
    return values
