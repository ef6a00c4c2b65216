"""What of an evaluated corpus the checkpoint has learned from, as far as paths tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rayner.files.uris import expanded, uri_of
from rayner.runtime.run_folder import comparable


def learned_from(recipes: Iterable[Any], supports: Iterable[Path], paths: Sequence[Path]) -> list[str]:
    """Of each path that lies in what was learned from, or holds a part of it, a line that says so.

    Paths of recipes count from the current folder. Texts are not compared: `corpus check --recipe` finds the
    same ones in other files.

    Args:
        recipes: their sections that have a `train` say what was trained on.
        supports: corpora that a few-shot tagger answers by.
        paths: files and folders, or URIs.
    """
    what = "or holds a part of it: if these are the same files, the figures are too high"
    found = {
        f"{uri_of(path) or path}: is in {name}, {what}": None
        for name, given in _learned(recipes, supports)
        for path in paths
        if any(_overlap(path, expanded(str(one))) for one in given)
    }
    return [*found]


def _learned(recipes: Iterable[Any], supports: Iterable[Path]) -> Iterator[tuple[str, Sequence[str | Path]]]:
    for recipe in recipes:
        for name, section in recipe:
            train = getattr(section, "train", None)
            if isinstance(train, tuple):
                yield f"{name}.train of the recipe", train
    yield "the support", [*supports]


def _overlap(one: str | Path, other: str | Path) -> bool:
    places = comparable(one), comparable(other)
    return places[0].is_relative_to(places[1]) or places[1].is_relative_to(places[0])
