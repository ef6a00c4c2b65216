"""What the `rayner index` commands do: build, add, remove, list."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rayner.config import StandardizerRecipe
from rayner.data.knowledge_bases import Columns, read_knowledge_base
from rayner.errors import CheckpointError, KnowledgeBaseError
from rayner.files.fetching import is_there
from rayner.files.uris import uri_of
from rayner.files.working import worked_on
from rayner.retrieval.build import Encode, build_index, check_added, kept_without
from rayner.retrieval.index_files import search_of
from rayner.retrieval.index_folder import (
    DOING,
    add_entities,
    build_into,
    check_target,
    describe_index,
    is_version,
    open_index,
    remove_entities,
)
from rayner.runtime.actors import each_on_actors, needs_of_worker
from rayner.runtime.linking.loading import load_standardizer
from rayner.runtime.progress import track
from rayner.tasks.stages import checkpoint_in
from rayner.tasks.standardizer.index_origin import check_origin, origin_of
from rayner.tasks.standardizer.strings import with_mentions_of

Search = Literal["auto", "exact", "ivf", "hnsw"]

_TEXTS = 1024


def build(
    checkpoint: Path,
    paths: Sequence[Path],
    out: Path,
    *,
    format: str = "auto",
    columns: Columns | None = None,
    search: Search | None = None,
    max_aliases: int | None = None,
    mentions: Sequence[Path] = (),
    device: str | None = None,
    workers: int = 0,
) -> dict[str, Any]:
    """Build the index of a knowledge base, as the recipe of the checkpoint says; in `out` a new version.

    Args:
        paths: files that together are one knowledge base.
        search: in place of the recipe's.
        max_aliases: in place of the recipe's.
        mentions: files of mentions with ids of the knowledge base, in the recipe's format: those of the
            recipe's types are indexed as aliases.
        workers: Ray actors that encode, each with what the recipe's `scaling` asks for; 0 for this process.

    Returns:
        `index, version, entities, names, dimensions, distance, search, recall` (1 where the search is exact),
        `rejected` (entities that could not be read) and `seconds`.

    Raises:
        CheckpointError: no checkpoint of a standardizer.
        KnowledgeBaseError: entities that cannot be read or cannot be in an index.
        InputError: mentions that cannot be read, or that have ids of no entity.
        IndexFolderError: `out` holds something else.
        InputError: another process is writing it.
    """
    begin = time.perf_counter()
    # Before the work, which would be lost.
    check_target(out)
    checkpoint = checkpoint_in(checkpoint, "entities")
    recipe, encode = _encoder(checkpoint, device, workers)
    changed = {"search": search, "max_aliases": max_aliases}
    settings = recipe.index.model_copy(update={k: v for k, v in changed.items() if v is not None})
    base = read_knowledge_base(paths, format, columns, settings.max_aliases)
    named = [str(path) for path in mentions]
    entities = with_mentions_of(base, named, recipe.mentions, "--mentions") if named else base.entities
    # What cannot be read must not stop who writes at a URI.
    with worked_on(out, DOING, takes_up=is_version) as (folder, _):
        make = partial(build_index, entities, encode, settings, recipe.loss.learned_distance)
        index = build_into(folder, make, origin_of(checkpoint, recipe))
    found = search_of(index)
    return {
        "index": uri_of(out) or str(out),
        "version": index.version,
        "entities": len(index.entities),
        "names": len(index.names),
        "dimensions": index.dense.vectors.shape[1],
        "distance": index.dense.distance,
        "search": found["kind"],
        "recall": found["recall"],
        "rejected": len(base.rejects),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def add(
    index: Path,
    paths: Sequence[Path],
    *,
    checkpoint: Path | None = None,
    format: str = "auto",
    columns: Columns | None = None,
) -> dict[str, Any]:
    """Add the entities of a knowledge base file; names that are in the index are not encoded again.

    Args:
        checkpoint: where the one that built the index lies by now; by default where it lay then.

    Returns:
        `index, version, added, entities, names, rejected, seconds`.

    Raises:
        CheckpointError: the checkpoint is not there or damaged.
        IndexFolderError: no index, a damaged one or one by another encoder.
        InputError: another process is writing it.
        KnowledgeBaseError: as `build`; an id that is in the index already.
    """
    begin = time.perf_counter()
    known = describe_index(index)
    named = checkpoint and checkpoint_in(checkpoint, "entities")
    folder = named or Path(known["origin"].get("checkpoint", ""))
    if not is_there(folder):
        what = "built the index and is not there any more"
        raise CheckpointError(str(folder), what, "name where it lies now: --checkpoint")
    recipe, encode = _encoder(folder, None)
    origin = origin_of(folder, recipe)
    check_origin(known["origin"], origin, index)
    base = read_knowledge_base(paths, format, columns, known["settings"]["max_aliases"])
    # Also before another process that writes at a URI is stopped.
    check_added(open_index(index), base.entities)
    with worked_on(index, DOING, takes_up=is_version) as (place, _):
        # Another one may have built it with another checkpoint meanwhile.
        changed = add_entities(
            place, base.entities, encode, lambda found: check_origin(found.origin, origin, index)
        )
    return {
        "index": uri_of(index) or str(index),
        "version": changed.version,
        "added": len(base.entities),
        "entities": len(changed.entities),
        "names": len(changed.names),
        "rejected": len(base.rejects),
        "seconds": round(time.perf_counter() - begin, 1),
    }


def remove(index: Path, entity_ids: Collection[str]) -> dict[str, Any]:
    """Remove entities; nothing is encoded.

    Returns:
        `index, version, removed, entities, names`.

    Raises:
        IndexFolderError: no index, or a damaged one.
        InputError: another process is writing it.
        KnowledgeBaseError: an id that is not in the index, or none would be left.
    """
    ids = list(dict.fromkeys(entity_ids))
    if not ids:
        raise KnowledgeBaseError("rayner index remove", "no entity named", "name the ids to remove")
    # Also before a place without an index is written to, and who writes at a URI is stopped.
    kept_without(open_index(index), ids)
    with worked_on(index, DOING, takes_up=is_version) as (folder, _):
        changed = remove_entities(folder, ids)
    return {
        "index": uri_of(index) or str(index),
        "version": changed.version,
        "removed": len(ids),
        "entities": len(changed.entities),
        "names": len(changed.names),
    }


def list_index(index: Path, limit: int | None = None) -> dict[str, Any]:
    """What an index is, and its entities.

    Args:
        limit: of the entities that are listed; None for all.

    Returns:
        `index, version, entities, names, dimensions, distance, search, recall, encoder, checkpoint` and
        `listed`, rows of `entity_id, name, aliases, type`.

    Raises:
        IndexFolderError: no index, or a damaged one.
    """
    opened = open_index(index)
    search = search_of(opened)
    listed = [
        {"entity_id": e.entity_id, "name": e.name, "aliases": list(e.aliases), "type": e.type}
        for e in islice(opened.entities, limit)
    ]
    return {
        "index": uri_of(index) or str(index),
        "version": opened.version,
        "entities": len(opened.entities),
        "names": len(opened.names),
        "dimensions": opened.dense.vectors.shape[1],
        "distance": opened.dense.distance,
        "search": search["kind"],
        "recall": search["recall"],
        "encoder": opened.origin.get("encoder"),
        "checkpoint": opened.origin.get("checkpoint"),
        "listed": listed,
    }


def _encoder(checkpoint: Path, device: str | None, workers: int = 0) -> tuple[StandardizerRecipe, Encode]:
    task, model = load_standardizer(checkpoint, device)
    if not workers:
        return task.recipe, partial(_encode, partial(map, partial(task.encode, model)))
    load, needs = partial(_loaded, checkpoint.absolute(), device), needs_of_worker(task.recipe.scaling)
    return task.recipe, partial(
        _encode, partial(each_on_actors, load, workers=workers, needs=needs, held=[checkpoint], device=device)
    )


def _loaded(checkpoint: Path, device: str | None) -> Callable[[Sequence[str]], np.ndarray]:
    task, model = load_standardizer(checkpoint, device)
    return partial(task.encode, model)


def _encode(
    encode: Callable[[Iterable[list[str]]], Iterator[np.ndarray]], texts: Sequence[str]
) -> np.ndarray:
    """The vectors of texts, chunk by chunk: whoever encodes them, the same chunks."""
    # Alike in length, so that a chunk has little padding.
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    chunks = [order[i : i + _TEXTS] for i in range(0, len(order), _TEXTS)]
    vectors = np.empty((0, 0), np.float32)
    parts = encode([[texts[i] for i in chunk] for chunk in chunks])
    shown = track(parts, len(chunks), f"encoding names, {_TEXTS} a step")
    for chunk, part in zip(chunks, shown, strict=True):
        if not vectors.size:
            vectors = np.empty((len(texts), part.shape[1]), np.float32)
        vectors[chunk] = part
    return vectors
