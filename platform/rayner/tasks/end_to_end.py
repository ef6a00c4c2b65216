"""The scores of the stages of a pipeline together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from rayner.data.fine_types import gold_types
from rayner.data.mention_strings import ids_of, ids_within
from rayner.data.schema import Document, Mention
from rayner.metrics.counts import looked_for
from rayner.metrics.end_to_end import FineTypes, score_end_to_end
from rayner.metrics.outcomes import Outcome, Truth, TruthOf, outcomes
from rayner.tasks.base import fine_type_names, type_names
from rayner.tasks.link_scores import Linking, last_linking


class EndToEnd(NamedTuple):
    """The scores of `score_end_to_end`, and the outcomes of each document."""

    scores: dict[str, Any]
    outcomes: list[list[Outcome]]

    @property
    def ids(self) -> set[str]:
        """The entities of the knowledge bases that are right or were answered."""
        everything = [one for of_document in self.outcomes for one in of_document]
        right = {id_ for one in everything if one.truth for id_ in one.truth.ids}
        answered = {one.answer for one in everything if one.answer is not None}
        return right.union(*map(ids_within, answered))


def evaluate_end_to_end(
    stages: Sequence[Any],
    gold: Sequence[Document],
    predicted: Sequence[Document],
    on_gold: Sequence[Document],
    *,
    intervals: bool = True,
) -> EndToEnd:
    """Score what the stages of a pipeline answered.

    Entities are scored where a gold mention of a type that is linked has one, fine types where one has some
    that a stage knows.

    Args:
        stages: all of them, in order.
        on_gold: what the stages after that of mentions answered on `without_answers(gold)`; empty without.

    Raises:
        CorpusError: the ids of gold and predicted documents do not agree.
    """
    types = [name for stage in stages for name in type_names(stage)] or None
    truth_of = _truth_of([stage for stage in stages if isinstance(stage, Linking)])
    gold, predicted, on_gold = (looked_for(documents, types) for documents in (gold, predicted, on_gold))
    if not any(truth.ids and truth.linked for d in gold for truth in map(truth_of, d.mentions)):
        truth_of = None
    rows = outcomes(gold, predicted, types, truth_of)
    given = outcomes(gold, on_gold, types, truth_of) if on_gold else []
    known = {name for stage in stages for name in fine_type_names(stage)}
    is_typed = any(known.intersection(gold_types(m)) for d in gold for m in d.mentions)
    fine = FineTypes(gold, predicted, on_gold) if is_typed else None
    return EndToEnd(score_end_to_end(rows, given, fine, intervals=intervals), rows)


def without_answers(document: Document) -> Document:
    """The document with the spans and types of its mentions, and nothing else of them."""
    bare = (Mention(m.start, m.end, m.type, head=m.head) for m in document.mentions)
    return replace(document, mentions=tuple(bare))


def _truth_of(stages: Sequence[Linking]) -> TruthOf:
    """The entity of a gold mention, by the last stage that links its type."""

    @cache
    def truth(mention: Mention) -> Truth:
        stage = last_linking(stages, mention)
        if stage is None:
            return Truth(frozenset(ids_of(mention.entity_id or "")), False, False)
        ids, known = stage.right_ids(mention)
        return Truth(frozenset(ids), known, True)

    return lambda mention: truth(Mention(0, 0, mention.type, mention.entity_id))
