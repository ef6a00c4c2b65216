"""Building an index of entities, and building it on with more entities or fewer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from rayner.config import IndexSettings
from rayner.data.schema import Entity
from rayner.errors import KnowledgeBaseError
from rayner.losses.distances import Distance
from rayner.retrieval import exact
from rayner.retrieval.approximate import Approximate, build_approximate
from rayner.retrieval.dense import DenseSide, as_vectors
from rayner.retrieval.entity_index import EntityIndex, scores_all
from rayner.retrieval.entity_table import EntityTable, entity_table
from rayner.retrieval.faiss_library import check_faiss
from rayner.retrieval.lexical import LexicalSide, fit_lexical
from rayner.retrieval.names import Names, names_of
from rayner.retrieval.rounded import rounded
from rayner.retrieval.short_forms import expansions

Encode = Callable[[Sequence[str]], np.ndarray]
"""Texts -> [N, D] float32."""

MOST_EXACT = 250_000
"""Names up to which `search: auto` is exact."""
_SHOWN = 5


class TextSide(NamedTuple):
    """What an index has beside vectors."""

    entities: EntityTable
    names: Names
    lexical: LexicalSide
    abbreviations: Mapping[str, str]


def build_index(
    entities: Sequence[Entity], encode: Encode, settings: IndexSettings, distance: Distance
) -> EntityIndex:
    """An index of the entities, in memory. A name that several entities have is encoded once.

    Args:
        distance: that of the training; `settings.distance` takes its place where it is set.

    Raises:
        KnowledgeBaseError: no entity, an empty name, an id twice, more aliases than allowed.
        InputError: vectors that are not finite.
    """
    side, distance = text_side(entities, settings), settings.distance or distance
    return _with_vectors(side, _encode(side.names.texts.to_pylist(), encode, distance), settings, distance)


def text_side(entities: Sequence[Entity], settings: IndexSettings) -> TextSide:
    """What an index of the entities has beside vectors: the same for every state of a model.

    Raises:
        KnowledgeBaseError: as `build_index`.
    """
    if not entities:
        raise KnowledgeBaseError("knowledge base", "no entity in it", "an index needs at least one")
    table = entities if isinstance(entities, EntityTable) else entity_table(entities)
    return _text_side(table, names_of(entities, settings), settings)


def index_with(
    side: TextSide,
    encode: Encode,
    settings: IndexSettings,
    distance: Distance,
    beside: torch.device,
    share: exact.Share = exact.alone,
) -> EntityIndex:
    """As `build_index`, of which `side` was made with the same settings; searched beside a model, not stored.

    Args:
        beside: where the model is. On a GPU that has room for the vectors, search is exact: no approximate
            structure is made for it.
        share: as of `build_approximate`, of workers that all call this.

    Raises:
        InputError: vectors that are not finite.
    """
    distance = settings.distance or distance
    vectors = _encode(side.names.texts.to_pylist(), encode, distance)
    dense = DenseSide(vectors, distance)
    dense.search_beside(beside)
    if dense.device == "cpu":
        # GPUs of several workers may differ in what room they have.
        dense.approximate = _approximate(
            vectors, settings, distance, exact.alone if beside.type == "cuda" else share
        )
    return EntityIndex(side.entities, side.names, dense, side.lexical, side.abbreviations, settings)


def with_entities(index: EntityIndex, entities: Sequence[Entity], encode: Encode) -> EntityIndex:
    """The index with more entities; vectors are made of names that it does not have.

    Raises:
        KnowledgeBaseError: as `build_index`; an id that the index has already.
    """
    check_added(index, entities)
    added = names_of(entities, index.settings)
    vectors = _vectors_of(added, index, encode)
    table = index.entities.followed_by(entity_table(entities))
    names = index.names.followed_by(added, len(index.entities))
    return _with_vectors(
        _text_side(table, names, index.settings),
        np.concatenate([index.dense.vectors, vectors]),
        index.settings,
        index.dense.distance,
        index.origin,
    )


def check_added(index: EntityIndex, entities: Sequence[Entity]) -> None:
    """Refuse entities that an index cannot be given.

    Raises:
        KnowledgeBaseError: an id that the index has already, or no entity.
    """
    if not entities:
        raise KnowledgeBaseError("knowledge base", "no entity in it", "name the file of the new entities")
    if known := [entity.entity_id for entity in entities if entity.entity_id in index.entities.numbers]:
        hint = "remove them first, or leave them out"
        raise KnowledgeBaseError(_ids(known), "the index has them already", hint)


def kept_without(index: EntityIndex, entity_ids: Collection[str]) -> np.ndarray:
    """Which entities stay where others are removed: bool [entities].

    Raises:
        KnowledgeBaseError: as `without_entities`.
    """
    numbers = index.entities.numbers
    if unknown := [id_ for id_ in entity_ids if id_ not in numbers]:
        raise KnowledgeBaseError(_ids(unknown), "not in the index", "`rayner index list` shows what is")
    kept = np.ones(len(index.entities), bool)
    kept[[numbers[id_] for id_ in entity_ids]] = False
    if not kept.any():
        raise KnowledgeBaseError("index", "no entity would be left in it", "remove its folder instead")
    return kept


def without_entities(index: EntityIndex, entity_ids: Collection[str]) -> EntityIndex:
    """The index without some entities; no vector is made.

    Raises:
        KnowledgeBaseError: an id that the index has not, or nothing would be left.
    """
    kept = kept_without(index, entity_ids)
    return _with_vectors(
        _text_side(index.entities.where(kept), index.names.of_entities(kept), index.settings),
        np.asarray(index.dense.vectors[kept[index.names.entity]]),
        index.settings,
        index.dense.distance,
        index.origin,
    )


def _vectors_of(added: Names, index: EntityIndex, encode: Encode) -> np.ndarray:
    # Encoded in another batch, a name that the index has would differ from it in its last digits: of
    # entities of one name, the later one might be found first.
    options = pc.SetLookupOptions(value_set=index.names.texts)
    places = pc.call_function("index_in", [added.texts], options).fill_null(-1).to_numpy()
    vectors = np.array(index.dense.vectors[places])
    if (new := places < 0).any():
        made = _encode(added.texts.filter(pa.array(new)).to_pylist(), encode, index.dense.distance)
        if made.shape[1] != vectors.shape[1]:
            what = f"vectors of {made.shape[1]} dimensions, the index has {vectors.shape[1]}"
            raise KnowledgeBaseError("index", what, "use the encoder that built it")
        vectors[new] = made
    return vectors


def _encode(texts: Sequence[str], encode: Encode, distance: Distance) -> np.ndarray:
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    vectors = as_vectors(np.asarray(encode(list(place))), distance, len(place))
    return vectors if len(place) == len(texts) else vectors[[place[text] for text in texts]]


def _text_side(entities: EntityTable, names: Names, settings: IndexSettings) -> TextSide:
    check_faiss()
    lexical = fit_lexical(names.texts.to_pylist(), settings.ngrams)
    if not scores_all(len(names), settings):
        lexical.keep_by_name()
    # Without aliases nothing is known of them, short forms among them too.
    known = entities if settings.aliases else (replace(entity, aliases=()) for entity in entities)
    return TextSide(entities, names, lexical, expansions(known) if settings.abbreviations else {})


def _with_vectors(
    side: TextSide,
    vectors: np.ndarray,
    settings: IndexSettings,
    distance: Distance,
    origin: Mapping[str, Any] | None = None,
) -> EntityIndex:
    approximate = _approximate(vectors, settings, distance)
    has_lists = approximate is not None and approximate.kind == "ivf" and distance == "cosine"
    dense = DenseSide(vectors, distance, approximate, rounded(vectors) if has_lists else None)
    return EntityIndex(side.entities, side.names, dense, side.lexical, side.abbreviations, settings, origin)


def _approximate(
    vectors: np.ndarray, settings: IndexSettings, distance: Distance, share: exact.Share = exact.alone
) -> Approximate | None:
    kind = settings.search
    if kind == "exact" or (kind == "auto" and len(vectors) <= MOST_EXACT):
        return None
    kind = "ivf" if kind == "auto" else kind
    return build_approximate(vectors, kind, settings.recall, distance == "cosine", share)


def _ids(ids: Sequence[str]) -> str:
    rest = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"entity {', '.join(ids[:_SHOWN])}{rest}"
