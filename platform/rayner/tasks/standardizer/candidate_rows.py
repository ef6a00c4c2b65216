"""What a re-ranker learns from: the strings that a standardizer learned, each beside its first candidates."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rayner.config import StandardizerRecipe
from rayner.data.mention_strings import fold, normal_form, unanswerable
from rayner.retrieval.build import Encode, build_index
from rayner.retrieval.combiner import Weight
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import names_of
from rayner.retrieval.short_forms import split_short_form
from rayner.supervision.context_rows import ContextRow
from rayner.tasks.standardizer.reranker import Query, entity_text
from rayner.tasks.standardizer.strings import EntityStrings

FOLDS = 5


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The rows of a mention, one a candidate; whether the search found an entity of it, and whether it has a
    sentence."""

    rows: list[ContextRow]
    found: bool
    with_sentence: bool


def candidate_rows(
    recipe: StandardizerRecipe,
    strings: EntityStrings,
    encode: Encode,
    weight: Weight,
    candidates: int,
    mentions_only: bool = False,
) -> Iterator[QueryRows]:
    """The rows of each mention to learn from, and of each alias where the recipe learns from aliases.

    A string is looked up in an index that does not have it as an alias, since what will be asked mostly is
    none: a fifth of all strings is left out at a time. Where no entity of it is found, one takes the place of
    the last candidate. The vectors are those of a model that learned from the very strings.

    Args:
        encode: texts -> [N, D].
        weight: what combines the sides of the index.
        candidates: rows of a mention, at most.
        mentions_only: whether an alias has rows only where a mention is written so: of a large knowledge base
            nearly all rows are of aliases otherwise, which have no sentence.
    """
    asked = _queries(strings, recipe.aliases and not mentions_only)
    names = names_of(strings.indexed, recipe.index).table["text"].to_pylist()
    texts = list(dict.fromkeys([*(query.text for query in asked), *names]))
    of_text = dict(zip(texts, encode(texts), strict=True))

    def known(given: Sequence[str]) -> np.ndarray:
        return np.stack([of_text[text] for text in given])

    for number in range(FOLDS):
        queries = [query for query in asked if _fold_of(query.text) == number]
        if not queries:
            continue
        entities = [
            replace(entity, aliases=tuple(name for name in entity.aliases if number not in _folds_of(name)))
            for entity in strings.indexed
        ]
        index = build_index(entities, known, recipe.index, recipe.loss.learned_distance)
        texts = [query.text for query in queries]
        found = index.search(texts, known(texts), candidates, weight)
        for query, of in zip(queries, found, strict=True):
            pairs = [(one.entity_id, one.matched) for one in of]
            yield _rows(index, query, asked[query], pairs, candidates)


def _queries(strings: EntityStrings, aliases: bool) -> dict[Query, dict[str, None]]:
    """What is asked, with the entities that are right; no string of dev is among it."""
    held_out = {fold(mention.text) for mention in strings.dev}
    asked: dict[Query, dict[str, None]] = {}

    def add(text: str, sentence: str | None, ids: Sequence[str]) -> None:
        if unanswerable(text) is None and fold(text) not in held_out:
            asked.setdefault(Query(normal_form(text), sentence), {}).update(dict.fromkeys(ids))

    for mention in strings.mentions:
        # Of a mention of several entities no single one is the answer.
        if len(mention.entity_ids) == 1:
            add(mention.text, mention.sentence, mention.entity_ids)
    for entity in strings.learned if aliases else ():
        for alias in entity.aliases:
            add(alias, None, (entity.entity_id,))
    return asked


def _rows(
    index: EntityIndex,
    query: Query,
    right: dict[str, None],
    pairs: list[tuple[str, str]],
    candidates: int,
) -> QueryRows:
    found = any(entity_id in right for entity_id, _ in pairs)
    if not found:
        missed = next(iter(right))
        pairs = [*pairs[: candidates - 1], (missed, index.entities.name(index.entities.numbers[missed]))]
    rows = [
        ContextRow(
            query.read,
            entity_text(index.entities[index.entities.numbers[entity_id]], matched),
            entity_id in right,
            (query.text,),
            group=fold(query.text),
        )
        for entity_id, matched in pairs
    ]
    return QueryRows(rows, found, query.sentence is not None)


def _folds_of(alias: str) -> set[int]:
    """Those of an alias and of the strings that it makes findable."""
    return {_fold_of(text) for text in (alias, *(split_short_form(normal_form(alias)) or ()))}


def _fold_of(text: str) -> int:
    return zlib.crc32(fold(text).encode()) % FOLDS
