"""The corpora of a sweep's runs: folds for cross-validation, and a part that no trial sees."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from rayner.config import BaseRecipe
from rayner.config.recipe_files import with_settings
from rayner.errors import CorpusError, InputError
from rayner.files.whole import write_json
from rayner.tasks.kinds.base import Source
from rayner.tasks.registry import task_of

FOLDER = "corpora"
SOURCE = "source.json"
_HELD_OUT_SEED = 1
"""Other than that of `dev_fraction` and of folds, so that what is held out cuts through all of them."""

Changes = Mapping[str, Any]
"""Settings that put a part of a recipe's corpus in the corpus's place."""


@dataclass(frozen=True, slots=True)
class Corpora:
    """The corpora of a sweep, as changes of its recipe.

    `folds` has one entry a run, a single one without changes where there is no cross-validation; `rest` is
    all that is not held out; `held_out` has the held-out part as its dev, None where nothing is held out.
    """

    folds: Sequence[Changes]
    rest: Changes
    held_out: Changes | None


def cut_corpora(recipe: BaseRecipe, folder: Path, folds: int, held_out: float) -> Corpora:
    """Write the parts of the recipe's training corpus that a sweep needs, the same each time.

    The corpus is gone through some times, and not held. A fold learns from the files of the other folds.

    Groups (books, patients) and equal mention strings stay together. The recipe's own dev keeps its items; a
    cross-validation leaves it for the run of the winner.

    Raises:
        InputError: there is nothing to choose settings by.
        CorpusError: a part would be empty, or the parts that are there are of another corpus.
    """
    source = task_of(recipe).kind.source(recipe)
    section = getattr(recipe, source.section)
    if not folds and not section.dev and not section.dev_fraction:
        hint = f"give {source.section}.dev, {source.section}.dev_fraction or --folds"
        raise InputError(source.section, "has no dev to choose settings by", hint)
    if not folds and not held_out:
        return Corpora([{}], {}, None)

    files = _Files(source, folder)
    items = _Known(source.items())
    others = {name: _Known(other()) for name, other in source.others.items()}
    settled = {name: files.write_all(other, name) for name, other in others.items()}
    settled |= source.settled
    rest: Changes = {}
    alone: Changes | None = None
    rows: np.ndarray | None = None
    if held_out:
        fractions = {"rest": 1 - held_out, "held_out": held_out}
        with _told_of(f"--held-out {held_out:g}"):
            found = source.parts(items, fractions, _HELD_OUT_SEED)
        rows = found == 0
        files.route("rest", found == 0)
        files.route("held_out", found == 1)
        rest = {**settled, "train": files.named("rest")}
        alone = {**rest, "dev": files.named("held_out"), "dev_fraction": 0}
    fold_changes = [rest]
    if folds:
        cut_from = items if rows is None else _Chosen(items, rows)
        with _told_of(f"--folds {folds}"):
            fold_of = source.parts(cut_from, {str(fold): 1 / folds for fold in range(folds)}, 0)
        if rows is not None:
            of_rest, fold_of = fold_of, np.full(len(rows), -1)
            fold_of[rows] = of_rest
        names = [f"fold{fold}" for fold in range(folds)]
        for number, name in enumerate(names):
            files.route(name, fold_of == number)
        fold_changes = [
            {
                **settled,
                "train": files.named(*(other for other in names if other != name)),
                "dev": files.named(name),
                "dev_fraction": 0,
            }
            for name in names
        ]
    _check_source(folder, [part.digest for part in (items, *others.values())])
    files.write(items)
    found = Corpora(
        folds=[_dotted(source.section, changes) for changes in fold_changes],
        rest=_dotted(source.section, rest),
        held_out=None if alone is None else _dotted(source.section, alone),
    )
    for changes in (*found.folds, found.rest, found.held_out or {}):
        with_settings(recipe, changes, "the parts of the corpus")
    return found


@contextmanager
def _told_of(option: str) -> Iterator[None]:
    """Within it, a part that would be empty is told of the option that asks for it."""
    try:
        yield
    except CorpusError as error:
        if error.where != "fractions":
            raise
        hint = "give it a larger fraction, or fewer folds, or more documents or groups"
        raise CorpusError(option, error.what, hint) from None


class _Files:
    """The files of the parts, each written once however often it is asked for."""

    def __init__(self, source: Source, folder: Path) -> None:
        self._source, self._folder = source, folder
        self._routes: dict[Path, np.ndarray] = {}

    def named(self, *names: str) -> list[str]:
        """The paths of parts."""
        return [str(self._path(name)) for name in names]

    def route(self, name: str, rows: np.ndarray) -> None:
        """Have a part written, of those items that `rows` [N] says."""
        if not self._path(name).exists():
            self._routes[self._path(name)] = rows

    def write(self, items: Iterable[Any]) -> None:
        """Write the parts that are not there, all of them while the items go by once."""
        if not self._routes:
            return
        with ExitStack() as stack:
            opened = [stack.enter_context(self._source.writing(path)) for path in self._routes]
            rows = zip(*(rows.tolist() for rows in self._routes.values()), strict=True)
            for item, taken in zip(items, rows, strict=True):
                for write, is_taken in zip(opened, taken, strict=True):
                    if is_taken:
                        write(item)

    def write_all(self, items: Iterable[Any], name: str) -> list[str]:
        """Write all items into one file, unless it is there; they are gone through in any case."""
        path = self._path(name)
        with nullcontext(_nowhere) if path.exists() else self._source.writing(path) as write:
            for item in items:
                write(item)
        return [str(path)]

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{self._source.suffix}"


@dataclass
class _Known:
    """Items, and once they were gone through what tells them from others."""

    items: Iterable[Any]
    digest: str = ""

    def __iter__(self) -> Iterator[Any]:
        found = hashlib.blake2b(digest_size=16)
        for item in self.items:
            found.update(repr(item).encode(errors="surrogatepass"))
            yield item
        self.digest = found.hexdigest()


def _check_source(folder: Path, digests: Sequence[str]) -> None:
    """Refuse parts of a corpus that was another by then."""
    path = folder / SOURCE
    if not path.exists():
        write_json(path, digests)
    elif json.loads(path.read_text("utf-8")) != list(digests):
        what = "has the parts of a corpus whose files have changed since"
        raise CorpusError(str(folder.parent), what, "start over with --fresh, or name another --out")


def _nowhere(item: Any) -> None:
    pass


@dataclass(frozen=True)
class _Chosen:
    """Those of the items that `rows` [N] says, to be gone through again and again."""

    items: Iterable[Any]
    rows: np.ndarray

    def __iter__(self) -> Iterator[Any]:
        return compress(self.items, self.rows)


def _dotted(section: str, changes: Changes) -> dict[str, Any]:
    return {f"{section}.{key}": value for key, value in changes.items()}
