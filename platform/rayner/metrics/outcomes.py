"""Where each mention ends in a pipeline: right, or lost in one of its parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rayner.data.mention_strings import is_right
from rayner.data.schema import Document, Mention
from rayner.metrics.counts import Key, align, annotated_keys
from rayner.metrics.error_kinds import SpanError, categorize

OF_MENTIONS: tuple[str, ...] = ("missed", "boundary", "type")
OF_ENTITIES: tuple[str, ...] = ("unlinked", "unknown", "retrieval", "ranking", "refused", "nil_linked")
OUTCOMES: tuple[str, ...] = ("right", *OF_MENTIONS, *OF_ENTITIES)
"""Of gold mentions; a prediction beside them is `spurious`."""
_SPANS = {"boundary_and_type": "boundary", **{name: name for name in OF_MENTIONS}}


class Truth(NamedTuple):
    """The entity of a gold mention.

    `ids`: the right entities, by the ids of the knowledge base where it has them; none is NIL. `known`:
    whether it has one of them. `linked`: whether a stage looks for entities of mentions of the type.
    """

    ids: frozenset[str]
    known: bool
    linked: bool


TruthOf = Callable[[Mention], Truth]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a gold mention ended (one of `OUTCOMES`), or a `spurious` prediction.

    `truth` is of the gold mention (None: only spans and types are judged), `answer` the entity of the
    predicted one. `rank` is the place of the first right candidate, from 1, where span and type are right;
    None: none is.
    """

    document_id: str
    outcome: str
    gold: Key | None
    predicted: Key | None
    truth: Truth | None = None
    answer: str | None = None
    rank: int | None = None

    @property
    def found(self) -> bool:
        """Whether span and type are right."""
        return self.gold is not None and self.gold == self.predicted

    @property
    def position(self) -> Key:
        """Of the gold mention, or of the prediction where there is none."""
        key = self.gold or self.predicted
        assert key is not None
        return key


def outcomes(
    gold: Sequence[Document],
    predicted: Sequence[Document],
    types: Sequence[str] | None = None,
    truth_of: TruthOf | None = None,
) -> list[list[Outcome]]:
    """The outcomes of each document, in the order of `gold`.

    A gold mention is lost by the first part that got it wrong:

    - `missed`: nothing that overlaps it was found, or that belongs to a nearer mention;
    - `boundary`: an overlapping span was found, of whatever type; `type`: its span, with another type;
    - `unlinked`: it has an entity, and no stage links mentions of its type;
    - `unknown`: the knowledge base lacks its entity, whatever was answered;
    - `retrieval`: its entity is not among the candidates;
    - `ranking`: it is, and another entity was answered or ranked above it; `refused`: it is the first, and
      the answer is NIL;
    - `nil_linked`: it has no entity, and was given one.

    Mentions are paired as `error_kinds.categorize` does. A gold mention that is given twice with different
    entities counts once, and any of them is right.

    Args:
        types: those that count; None for all.
        truth_of: the entity of a gold mention; without it only spans and types are judged.

    Raises:
        CorpusError: the ids of gold and predicted documents do not agree.
    """
    wanted = None if types is None else frozenset(types)
    mistakes: dict[str, list[SpanError]] = defaultdict(list)
    for error in categorize(gold, predicted, types):
        mistakes[error.document_id].append(error)
    found: list[list[Outcome]] = []
    for document, answer in align(gold, predicted):
        name, truths, answers = document.document_id, _by_key(document), _by_key(answer)
        keys, answered, _ = annotated_keys(document, answer, wanted)
        rows = [_judged(name, key, truths[key], answers[key][0], truth_of) for key in keys & answered]
        for error in mistakes[name]:
            truth = _joined(truths[error.gold], truth_of) if error.gold else None
            given = answers[error.predicted][0].entity_id if error.predicted else None
            outcome = _SPANS.get(error.category, "spurious")
            rows.append(Outcome(name, outcome, error.gold, error.predicted, truth, given))
        found.append(sorted(rows, key=lambda one: one.position))
    return found


def _judged(
    document_id: str, key: Key, gold: Sequence[Mention], answer: Mention, truth_of: TruthOf | None
) -> Outcome:
    """Of a mention with the right span and type."""
    truth = _joined(gold, truth_of)
    if truth is None:
        return Outcome(document_id, "right", key, key)
    ranks = (place for place, one in enumerate(answer.candidates, 1) if one.entity_id in truth.ids)
    rank = next(ranks, None)
    outcome = _of_entity(truth, answer.entity_id, rank)
    return Outcome(document_id, outcome, key, key, truth, answer.entity_id, rank)


def _of_entity(truth: Truth, answer: str | None, rank: int | None) -> str:
    if not truth.ids:
        return "right" if answer is None else "nil_linked"
    if is_right(answer, truth.ids):
        return "right"
    if not truth.linked:
        return "unlinked"
    if not truth.known:
        return "unknown"
    if rank is None:
        return "retrieval"
    return "refused" if rank == 1 and answer is None else "ranking"


def _joined(mentions: Sequence[Mention], truth_of: TruthOf | None) -> Truth | None:
    if truth_of is None:
        return None
    truths = [truth_of(mention) for mention in mentions]
    ids = frozenset[str]().union(*(truth.ids for truth in truths))
    return Truth(ids, any(truth.known for truth in truths), any(truth.linked for truth in truths))


def _by_key(document: Document) -> dict[Key, list[Mention]]:
    found: dict[Key, list[Mention]] = defaultdict(list)
    for mention in document.mentions:
        found[mention.start, mention.end, mention.type].append(mention)
    return found
