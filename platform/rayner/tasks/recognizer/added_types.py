"""Types that are added to a trained recognizer: a recipe beside its checkpoint, and what flat decoding takes
from the types that it had."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rayner.config import AddedTypes, RecognizerRecipe, SpanDecoding
from rayner.config.recipe_files import flat, parse_settings
from rayner.data.schema import UNKNOWN, Document
from rayner.errors import CheckpointError, CorpusError, RecipeError
from rayner.files.fetching import local
from rayner.files.run_checkpoints import MANIFEST, checkpoint_of
from rayner.files.uris import uri_of
from rayner.metrics.spans import score_spans
from rayner.tasks.checkpoint_files import check_task, manifest_version, only, read_known_recipe
from rayner.tasks.recognizer.overlaps import without_overlaps

LEAST_MENTIONS = 2
"""Of an added type, to learn from."""
DEFAULTS = {"training": {"head_learning_rate": 0.02}, "loss": {"beta": 0.95}}
"""Of what the recipe leaves open: vectors of length 1 are all that learns, and few mentions against all other
spans raise their threshold over themselves."""
_AS_IT_IS = ("encoder", "model", "windows", "context", "decoding")
"""Parts of a recipe that belong to the checkpoint."""


def with_added_types(recipe: RecognizerRecipe, checkpoint: Path) -> RecognizerRecipe:
    """The recipe of a training in which the recipe's types learn alone, beside those of a checkpoint.

    Encoder, model, windows, context and decoding are the checkpoint's; `DEFAULTS` holds for what the recipe
    leaves open.

    Raises:
        RecipeError: a type that the checkpoint has, or a setting that is not the checkpoint's.
        CheckpointError: the folder is no checkpoint of a recognizer.
    """
    named = checkpoint_of(checkpoint)
    folder = local(named)
    base = read_base(folder)
    there = {t.name for t in base.types}
    if both := [t.name for t in recipe.types if t.name in there]:
        hint = "name only new types in `types`"
        raise RecipeError("types", f"{both[0]!r} is a type that {checkpoint} already has", hint)
    kept = base.model_dump(mode="json", include=set(_AS_IT_IS))
    for key, value in flat(recipe.model_dump(mode="json", include=set(_AS_IT_IS), exclude_unset=True)):
        if (stays := _at(kept, key.split("."))) != value:
            what = f"is {value!r}, but {stays!r} in {checkpoint}, which stays as it is"
            raise RecipeError(key, what, "leave it out")
    added = AddedTypes(
        checkpoint=uri_of(named) or os.path.abspath(named),
        version=manifest_version(folder, base.task),
        types=tuple(t.name for t in recipe.types),
        earlier=() if base.added is None else (*base.added.earlier, *base.added.types),
    )
    types = [t.model_dump(mode="json") for t in (*base.types, *recipe.types)]
    values = {**recipe.model_dump(mode="json"), **kept, "types": types, "added": added.model_dump()}
    for part, defaults in DEFAULTS.items():
        given = getattr(recipe, part).model_fields_set
        values[part] |= {key: value for key, value in defaults.items() if key not in given}
    return parse_settings(RecognizerRecipe, values, f"the recipe with the types of {checkpoint}")


def base_of(added: AddedTypes) -> Path:
    """The folder of the checkpoint that types are added to.

    Raises:
        CheckpointError: it is another checkpoint by now, or none.
    """
    folder = local(checkpoint_of(Path(added.checkpoint)))
    if not (folder / MANIFEST).is_file():
        hint = "put the checkpoint that the types are added to back, or start over with another"
        raise CheckpointError(added.checkpoint, "is no checkpoint", hint)
    if (found := manifest_version(folder, "recognizer")) != added.version:
        what = f"is {found} by now, and the types were to be added to {added.version}"
        raise CheckpointError(added.checkpoint, what, "start over with --fresh, or name another --out")
    return folder


def require_added(counts: Mapping[str, int], added: AddedTypes) -> None:
    """Refuse documents that have too few mentions of an added type.

    Raises:
        CorpusError: it names the type.
    """
    for name in added.types:
        if (count := counts.get(name, 0)) < LEAST_MENTIONS:
            mentions = "1 mention" if count else "no mention"
            what = f"{mentions} of the added type {name!r}, which takes at least {LEAST_MENTIONS}"
            raise CorpusError("corpus.train", what, "annotate more, or leave the type out")


def effects_of_flat_decoding(
    gold: Sequence[Document], nested: Sequence[Document], added: Sequence[str], decoding: SpanDecoding
) -> dict[str, Any]:
    """What becomes of the mentions of the types that were there, where added types compete for their place.

    Args:
        nested: the same documents with all mentions that were found, overlapping or not.
        added: the types that compete.
        decoding: how mentions are decoded: where they may be nested, none is lost.

    Returns:
        `before` and `after`: mentions of the types that were there, decoded without and with the added types;
        `lost`: of those before, how many are no more; `lost_correct`: of these, how many are gold; `gained`:
        others that took the place of some; `f1_before`, `f1_after`; `per_type`: the same of each type.
    """
    names = sorted({m.type for d in [*gold, *nested] for m in d.mentions} - {*added, UNKNOWN})
    before = [_decoded(_without(d, added), decoding) for d in nested]
    after = [_without(_decoded(d, decoding), added) for d in nested]
    right, old, new = ({key for d in side for key in _keys(d)} for side in (gold, before, after))
    parts = {
        "before": old,
        "after": new,
        "lost": old - new,
        "lost_correct": (old - new) & right,
        "gained": new - old,
    }
    counts = {part: Counter(key[-1] for key in keys) for part, keys in parts.items()}
    scores = {f"f1_{side}": score_spans(gold, d, names) for side, d in (("before", before), ("after", after))}
    return {
        **{part: found.total() for part, found in counts.items()},
        **{side: found["f1"] for side, found in scores.items()},
        "per_type": {
            name: {
                **{part: found[name] for part, found in counts.items()},
                **{side: found["per_type"][name]["f1"] for side, found in scores.items()},
            }
            for name in names
        },
    }


def _keys(document: Document) -> Iterator[tuple[str, int, int, str]]:
    for mention in document.mentions:
        yield document.document_id, mention.start, mention.end, mention.type


def _decoded(document: Document, decoding: SpanDecoding) -> Document:
    if decoding.overlap == "nested":
        return document
    return replace(document, mentions=tuple(without_overlaps(document.mentions, decoding.flat)))


def _without(document: Document, types: Sequence[str]) -> Document:
    return replace(document, mentions=tuple(m for m in document.mentions if m.type not in types))


def read_base(folder: Path) -> RecognizerRecipe:
    """The recipe of a checkpoint that types can be added to.

    Raises:
        CheckpointError: the folder is no checkpoint, or one of another task.
    """
    check_task(folder, RecognizerRecipe, ("", "types are added to a recognizer"))
    return cast(RecognizerRecipe, read_known_recipe(folder, only(RecognizerRecipe)))


def _at(values: Any, path: Sequence[str]) -> Any:
    for key in path:
        values = values.get(key) if isinstance(values, dict) else None
    return values
