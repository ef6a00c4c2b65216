"""What a kind of items is: how they are read, stored, scored, described and cut, said once for all tasks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rayner.config.documents import CorpusSettings
from rayner.files.whole import text_file
from rayner.tasks.base import Mode, ParallelMap, Predictor

FOLDER = "THIS_FOLDER"
"""In place of the checkpoint's folder in the commands of a card."""
OF_ENCODER: Mapping[str, Sequence[str]] = {
    "commands": [f"rayner train RECIPE --set encoder={FOLDER} --out RUN"],
    "python": [
        "from rayner.models.encoder import load_encoder",
        "",
        f'encoder = load_encoder("{FOLDER}")',
    ],
}
"""What a card says of a pre-training, whose encoder another task starts from."""


class GoldItems(NamedTuple):
    """Items to score answers on, perhaps read only as they are asked for, and what is reported beside the
    scores: counts of what was not read."""

    items: Iterable[Any]
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
        items: all training items, to be gone through again and again; they need not be held.
        parts: items, fractions by name and a seed -> the number of the part of each; what belongs together
            stays together.
        writing: opens a file with the `suffix`, and gives what writes one item into it; the file is there
            once it is closed.
        others: parts of the section beside `train` that `settled` would change.
        settled: settings that reading has done already, for the training items and for `others`.
    """

    section: str
    items: Callable[[], Iterable[Any]]
    parts: Callable[[Iterable[Any], Mapping[str, float], int], np.ndarray]
    writing: Callable[[Path], AbstractContextManager[Callable[[Any], None]]]
    suffix: str
    others: Mapping[str, Callable[[], Iterable[Any]]] = field(default_factory=dict)
    settled: Mapping[str, Any] = field(default_factory=dict)


class Kind(Protocol):
    """Items that a predictor is given and scored on."""

    name: str
    metrics: Mapping[str, Mode]
    """Those that are reported at the top level, with whether more or less is better; the main one first."""
    evaluation_options: Mapping[str, Any] = {}
    """Options of a predictor whose answers are to be scored."""
    are_documents: bool = False
    """Whether its items are documents: a text that a predictor is given becomes one."""
    have_types: bool = False
    """Whether the types of their mentions are learned, each by its name in the recipe's `types`."""
    report_parts: Sequence[str] = ()
    """What a report shows beside what it has of every run: names of `runtime.reports.page_parts.OF_KINDS`."""
    about_scores: str = ""
    """What a report says below the scores."""

    def read(
        self,
        paths: Sequence[Path],
        format: str,
        recipe: Any,
        predictor: Predictor[Any, Any, Any, Any],
        types: Sequence[str] | None = None,
        mapper: ParallelMap = map,
    ) -> GoldItems:
        """The gold items of files.

        Args:
            types: only of these types; None for what the recipe says.
            mapper: how files are read that have to be looked at first.
        """
        ...

    def scored(self, item: Any) -> Any:
        """What scores are made of, of an item or its answer: all of it, or what fits into memory."""
        return item

    def intervals(
        self, gold: Sequence[Any], predicted: Sequence[Any], metrics: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Bootstrap intervals of the metrics; by default none."""
        return {}

    def curves(self, gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, Any]:
        """Points of curves that a report draws; by default none."""
        return {}

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


def shell_path(path: str) -> str:
    """A path of a recipe as a shell takes it, which puts in its variables as a recipe does."""
    if shlex.quote(path) == path:
        return path
    return '"' + re.sub(r'(["`\\])', r"\\\1", path) + '"'


def held_out_documents(corpus: CorpusSettings) -> Sequence[str]:
    """The development part in the words of a card."""
    part = (f"{corpus.dev_fraction:.0%} of the training documents",) if corpus.dev_fraction else ()
    return corpus.dev or part


def lines_file(line: Callable[[Any], str]) -> Callable[[Path], AbstractContextManager[Callable[[Any], None]]]:
    """The `writing` of a source that has a line for each item."""

    @contextmanager
    def writing(path: Path) -> Iterator[Callable[[Any], None]]:
        with text_file(path) as file:

            def write(item: Any) -> None:
                file.write(line(item) + "\n")

            yield write

    return writing
