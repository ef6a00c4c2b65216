"""An index of made-up names, of any size, without encoding them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from pathlib import Path

import numpy as np

from rayner.config import StandardizerRecipe
from rayner.data.schema import Entity
from rayner.retrieval.build import build_index
from rayner.retrieval.index_folder import write_index
from rayner.tasks.checkpoint import load_checkpoint
from rayner.tasks.standardizer.index_origin import origin_of
from rayner.tasks.standardizer.task import StandardizerTask

_SYLLABLES = ("ba", "co", "di", "fu", "ga", "hy", "jo", "ke", "lo", "my", "ne", "pa", "ri", "so", "tu", "vex")


def made_up_names(count: int) -> list[str]:
    """Distinct names of two words."""
    words = ["".join(parts) for parts in product(_SYLLABLES, repeat=3)]
    rng = np.random.default_rng(1)
    pairs = rng.permutation(len(words) ** 2)[:count] if count < 10**6 else range(count)
    return [
        f"{words[int(i) // len(words)].title()} {words[int(i) % len(words)]}" for i in islice(pairs, count)
    ]


def write_synthetic_index(checkpoint: Path, folder: Path, count: int) -> tuple[Path, list[str]]:
    """An index of so many names, each an entity, and some thousands of the names.

    The vectors are random, around as many centres as the square root of their number: to encode a million
    names takes hours, and a search does not know what vectors mean.
    """
    loaded = load_checkpoint(checkpoint, "cpu")
    task, recipe = loaded.task, loaded.recipe
    assert isinstance(task, StandardizerTask)
    assert isinstance(recipe, StandardizerRecipe)
    names = made_up_names(count)
    size = task.encode(loaded.model, names[:1]).shape[1]
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((max(1, int(count**0.5)), size), np.float32)

    def encode(texts: Sequence[str]) -> np.ndarray:
        vectors = centres[rng.integers(0, len(centres), len(texts))]
        vectors = vectors + 0.3 * rng.standard_normal((len(texts), size), np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    entities = [Entity(f"e{number}", name) for number, name in enumerate(names)]
    index = build_index(entities, encode, recipe.index, recipe.loss.learned_distance)
    write_index(index, folder, origin_of(checkpoint, recipe))
    return folder, names[:20_000]
