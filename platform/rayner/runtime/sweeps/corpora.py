"""The corpora of a sweep's runs: folds for cross-validation, and a part that no trial sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rayner.config import BaseRecipe
from rayner.config.reading import with_settings
from rayner.errors import InputError
from rayner.tasks.registry import task_of

FOLDER = "corpora"
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

    Groups (books, patients) and equal mention strings stay together. The recipe's own dev keeps its items; a
    cross-validation leaves it for the run of the winner.

    Raises:
        InputError: there is nothing to choose settings by.
        CorpusError: a part would be empty.
    """
    source = task_of(recipe).kind.source(recipe)
    section = getattr(recipe, source.section)
    if not folds and not section.dev and not section.dev_fraction:
        hint = f"give {source.section}.dev, {source.section}.dev_fraction or --folds"
        raise InputError(source.section, "has no dev to choose settings by", hint)
    if not folds and not held_out:
        return Corpora([{}], {}, None)

    def written(items: Sequence[Any], name: str) -> list[str]:
        path = folder / f"{name}{source.suffix}"
        if not path.exists():
            source.write(items, path)
        return [str(path)]

    items = source.read()
    settled = {name: written(read(), name) for name, read in source.others.items()}
    settled |= source.settled
    rest: Changes = {}
    alone: Changes | None = None
    if held_out:
        parts = source.cut(items, {"rest": 1 - held_out, "held_out": held_out}, _HELD_OUT_SEED)
        items = parts["rest"]
        rest = {**settled, "train": written(items, "rest")}
        apart = written(parts["held_out"], "held_out")
        alone = {**rest, "dev": apart, "dev_fraction": 0}
    fold_changes = [rest]
    if folds:
        parts = source.cut(items, {str(fold): 1 / folds for fold in range(folds)}, 0)
        fold_changes = []
        for name, dev in parts.items():
            others = [item for other, part in parts.items() if other != name for item in part]
            train, own = written(others, f"fold{name}_train"), written(dev, f"fold{name}_dev")
            fold_changes.append({**settled, "train": train, "dev": own, "dev_fraction": 0})
    found = Corpora(
        folds=[_dotted(source.section, changes) for changes in fold_changes],
        rest=_dotted(source.section, rest),
        held_out=None if alone is None else _dotted(source.section, alone),
    )
    for changes in (*found.folds, found.rest, found.held_out or {}):
        with_settings(recipe, changes, "the parts of the corpus")
    return found


def _dotted(section: str, changes: Changes) -> dict[str, Any]:
    return {f"{section}.{key}": value for key, value in changes.items()}
