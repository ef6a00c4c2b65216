"""The files and folders that a recipe names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rayner.config.base import BaseRecipe
from rayner.config.recipe_files import flat
from rayner.files.run_checkpoints import BEST
from rayner.files.uris import expanded, uri_of

_DATA = frozenset(
    {
        *(f"{section}.{part}" for section in ("corpus", "mentions", "pairs") for part in ("train", "dev")),
        *("corpus.dictionary", "corpus.phrases", "mentions.negatives", "knowledge_base.paths", "type_list"),
    }
)
_MODELS = frozenset({"encoder", "context.ranker", "added.checkpoint"})


def named_paths(recipe: BaseRecipe, searched: Iterable[tuple[str, Any]] = ()) -> list[str]:
    """What a training reads, each a path or a URI with its variables put in.

    An id of a model is none, unless there is a folder of that name. Of a run it is the checkpoint.

    Args:
        searched: further values of keys.
    """
    given = [*flat(recipe.model_dump(mode="json")), *searched]
    return list(dict.fromkeys(path for key, value in given for path in _paths(key, value)))


def _paths(key: str, value: Any) -> Iterator[str]:
    if key not in _DATA | _MODELS:
        return
    for named in [value] if isinstance(value, str) else value or ():
        path = expanded(named)
        if key in _DATA or uri_of(path):
            yield path
        elif Path(path).exists():
            best = Path(path, BEST)
            yield str(best) if best.exists() else path
