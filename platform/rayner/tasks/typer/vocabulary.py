"""The types that a typer learns, and how often each occurs in training: from the recipe, from a file of names
or from the training corpus."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from rayner.config import TyperRecipe
from rayner.config.documents import named
from rayner.config.recipe_files import corpus_paths
from rayner.counted import counted
from rayner.data.fine_types import missing_parents
from rayner.errors import CheckpointError, CorpusError, RecipeError, storage_error
from rayner.tasks.checkpoint_files import HINT

log = logging.getLogger(__name__)

FILE = "types.json"
"""In a checkpoint: type -> mentions of it in training."""


def vocabulary_of(recipe: TyperRecipe, counts: Counter[str]) -> dict[str, int]:
    """The types in their order, with the number of mentions of each in training.

    Args:
        counts: of all gold types of the training documents.

    Raises:
        RecipeError: the file of names is missing, holds none or one twice.
        CorpusError: no mention has a type that is to be learned.
    """
    names = listed_types(recipe) or sorted(n for n, count in counts.items() if count >= recipe.min_count)
    if missing := lacking(recipe, names):
        told = ", ".join(f"{above} of {below[0]}" for above, below in list(missing.items())[:3])
        what = "not among the types, though above some of them, and so in no answer: %s (%s); add them"
        log.warning(what, counted(len(missing), "name"), told)
    found = {name: counts[name] for name in names}
    if not any(found.values()):
        there = ", ".join(f"{name} ({count})" for name, count in counts.most_common(10)) or "none at all"
        what = f"no mention of a type that is to be learned; types of its mentions: {there}"
        raise CorpusError(
            "corpus.train", what, "correct types, type_list or min_count, or name another corpus"
        )
    return found


def listed_types(recipe: TyperRecipe) -> list[str]:
    """The types that a recipe or its file names; none where the training corpus decides.

    Raises:
        RecipeError: as `read_type_list`.
    """
    named = [t.name for t in recipe.types]
    return named if recipe.type_list is None else read_type_list(recipe.type_list)


def lacking(recipe: TyperRecipe, names: Iterable[str]) -> dict[str, list[str]]:
    """As `missing_parents`; none where a recipe makes nothing of hierarchies."""
    return {} if recipe.decoding.hierarchy == "none" else missing_parents(names)


def read_type_list(path: str) -> list[str]:
    """The types in a file, one a line.

    Raises:
        RecipeError: it is missing, is no text, holds no name, or one twice.
    """
    (file,) = corpus_paths([path], "type_list")
    try:
        # Some editors begin a file with a byte-order mark, which would be a part of the first name.
        lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError("type_list", f"{file} cannot be read ({error})", "write a type a line") from None
    seen: set[str] = set()
    for number, name in enumerate(lines, 1):
        if name and name in seen:
            raise RecipeError("type_list", f"{file}:{number}: {name!r} occurs twice", "remove one of them")
        try:
            seen.add(name and named(name))
        except ValueError as error:
            raise RecipeError("type_list", f"{file}:{number}: {error}") from None
    if not (names := [name for name in lines if name]):
        raise RecipeError("type_list", f"{file} holds no type", "write a type a line")
    return names


def write_vocabulary(vocabulary: Mapping[str, int], folder: Path) -> None:
    """Write the types into a checkpoint folder."""
    text = json.dumps(dict(vocabulary), ensure_ascii=False, indent=0)
    (folder / FILE).write_text(text, encoding="utf-8")


def read_vocabulary(folder: Path) -> dict[str, int]:
    """The types of a checkpoint folder.

    Raises:
        CheckpointError: the file is missing or damaged.
        StorageError: it cannot be read now.
    """
    path = folder / FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(str(path), "is missing", "copy the whole checkpoint folder") from None
    except (OSError, ValueError, RecursionError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        raise CheckpointError(str(path), "is cut short or not the file that was saved", HINT) from None
    if not isinstance(values, dict) or not all(type(count) is int for count in values.values()):
        raise CheckpointError(str(path), "is not the file that was saved", HINT)
    return values
