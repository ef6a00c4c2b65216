"""What a kind of items is: how they are read, stored, scored, described and cut, said once for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from rayner.tasks.base import Mode, Predictor

FOLDER = "THIS_FOLDER"
"""Stands for the checkpoint's folder in the commands of a card."""


class GoldItems(NamedTuple):
    """Items to score answers on, and what is reported beside the scores: counts of what was not read."""

    items: Sequence[Any]
    notes: Mapping[str, Any]


class Card(NamedTuple):
    """What the README of a checkpoint says of items of a kind."""

    train: Sequence[str]
    dev: Sequence[str]
    about: Sequence[str]
    commands: Sequence[str]
    python: Sequence[str]


@dataclass(frozen=True, slots=True)
class Source:
    """The training items of a recipe: the section that names them, and how they are cut and written.

    Attributes:
        section: of the recipe; it has `train`, `dev` and `dev_fraction`.
        read: all training items.
        cut: items, fractions by name and a seed -> the parts; what belongs together stays together.
        write: items into a file with the `suffix`.
        others: parts of the section beside `train` that `settled` would change.
        settled: settings that reading has done already, for the training items and for `others`.
    """

    section: str
    read: Callable[[], Sequence[Any]]
    cut: Callable[[Sequence[Any], Mapping[str, float], int], Mapping[str, Sequence[Any]]]
    write: Callable[[Sequence[Any], Path], None]
    suffix: str
    others: Mapping[str, Callable[[], Sequence[Any]]] = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)


class Kind(Protocol):
    """Items that a predictor is given and scored on."""

    name: str
    metrics: Mapping[str, Mode]
    """Those that are reported at the top level, with whether more or less is better; the main one first."""
    evaluation_options: Mapping[str, Any]
    """Options of a predictor whose answers are to be scored."""

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: Any,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
    ) -> GoldItems:
        """The gold items of files.

        Args:
            types: only of these types; None for what the recipe says.
        """
        ...

    def intervals(
        self, gold: Sequence[Any], predicted: Sequence[Any], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Bootstrap intervals of the metrics."""
        ...

    def curves(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """Points of curves that a report draws; may be empty."""
        ...

    def to_tables(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, pa.Table]:
        """Gold and predicted items as tables, by file name."""
        ...

    def from_tables(self, tables: Mapping[str, pa.Table]) -> tuple[list[Any], list[Any]]:
        """What `to_tables` was given."""
        ...

    def card(self, recipe: Any) -> Card:
        """What the README of a checkpoint says."""
        ...

    def source(self, recipe: Any) -> Source:
        """The training items of a recipe, to be cut into folds."""
        ...
