"""What of an evaluated corpus the checkpoint has learned from, as far as paths tell."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rayner.files.uris import uri_of
from rayner.runtime.run_folder import comparable


def learned_from(
    recipes: Iterable[Any], options: Mapping[str, Any] | None, paths: Sequence[Path]
) -> list[str]:
    """Of each path that lies in what was learned from, or holds a part of it, a line that says so.

    Texts are not compared: `corpus check --recipe` finds the same ones in other files.

    Args:
        recipes: their sections that have a `train` say what was trained on.
        options: what the evaluation asks with; those of a few-shot tagger have a `support`.
        paths: files and folders, or URIs.
    """
    what = "or holds a part of it: the figures are of what was learned from"
    found = {
        f"{uri_of(path) or path}: is in {name}, {what}": None
        for name, given in _learned(recipes, options)
        for path in paths
        if any(_overlap(path, Path(os.path.expandvars(one)).expanduser()) for one in given)
    }
    return [*found]


def _learned(
    recipes: Iterable[Any], options: Mapping[str, Any] | None
) -> Iterator[tuple[str, Sequence[str | Path]]]:
    for recipe in recipes:
        for name, section in recipe:
            train = getattr(section, "train", None)
            if isinstance(train, tuple):
                yield f"{name}.train of the recipe", train
    if support := (options or {}).get("support"):
        yield "the support", [support]


def _overlap(one: Path, other: Path) -> bool:
    places = comparable(one), comparable(other)
    return places[0].is_relative_to(places[1]) or places[1].is_relative_to(places[0])
