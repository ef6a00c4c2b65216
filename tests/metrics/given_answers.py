"""Mentions and answers of a linker, as its metrics take them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gold:
    text: str
    entity_ids: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    entity_id: str
    name: str = ""


@dataclass(frozen=True)
class Given:
    entity_id: str | None
    score: float
    candidates: tuple[Found, ...]
    probability: float | None = None


def answer(ranking: str, score: float, nil: bool = False) -> Given:
    return Given(None if nil or not ranking else ranking[0], score, tuple(map(Found, ranking)))
