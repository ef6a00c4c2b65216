"""The files and folders that a recipe names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rayner.config.base import BaseRecipe
from rayner.files.uris import uri_of

_DATA = frozenset({"train", "dev", "negatives", "paths", "dictionary", "phrases", "type_list"})
_MODELS = frozenset({"encoder", "ranker", "checkpoint"})


def named_paths(recipe: BaseRecipe) -> list[str]:
    """What the recipe reads, each a path or a URI with its variables put in.

    An id of a model is none, unless there is a folder of that name.
    """
    return list(dict.fromkeys(_within(recipe.model_dump(mode="json"))))


def _within(values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _within(value)
        elif key in _DATA | _MODELS:
            for named in [value] if isinstance(value, str) else value or ():
                path = os.path.expanduser(os.path.expandvars(named))
                if key in _DATA or uri_of(path) or Path(path).exists():
                    yield path
