"""The standardizer as it answers: from a mention to an entity of an index, or to NIL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rayner.data.composites import readings
from rayner.data.entity_ids import entity_of_id
from rayner.data.mention_strings import SEVERAL, MentionString, name_of, normal_form, unanswerable
from rayner.errors import InputError
from rayner.metrics.earlier_nil import EarlierNil
from rayner.metrics.linking import score_linking
from rayner.metrics.linking_errors import categorize_answers, summarize_answer_errors
from rayner.metrics.nil import (
    CANDIDATES,
    NIL_SHARE,
    NilCalibration,
    OperatingPoint,
    check_nil_share,
)
from rayner.retrieval.combiner import Weight, likeness
from rayner.tasks.standardizer.nil_mentions import evidence_of
from rayner.tasks.standardizer.reranker import Query, Reranker
from rayner.tasks.standardizer.telling_names import telling_indexed, telling_names

if TYPE_CHECKING:
    from rayner.retrieval.build import Encode
    from rayner.retrieval.entity_index import EntityIndex
    from rayner.retrieval.names import Found

_ROUNDING = 1e-6
TOP_K = 5
TOKENS_PER_SEARCH = 2**15
"""Names that are searched together. The encoder sorts them by length and takes them in chunks of its own."""
COST_OF_A_SEARCH = 2048
"""What a search costs beside its names, in tokens: it reads the whole index."""
_CHARACTERS_PER_TOKEN = 4

NilChoice = Literal[OperatingPoint, "never"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The entity of a mention, or NIL.

    Args:
        text: the mention.
        entity_id: None is NIL; the ids of a composite mention are joined by `|`, as corpora write them.
        score: of the first candidate, whether or not it is the answer; minus infinity without one. Score,
            margin and probability of a composite mention are those of its part of the lowest probability, or
            without a calibration of the lowest score.
        margin: how far the next entity's score lies below; infinity where there is no next one.
        probability: calibrated, that the first candidate is right, for the share of NIL that was asked for;
            None without a calibration.
        candidates: the entities found, best first, also where the answer is NIL; of a composite mention first
            the best of each part.
        reason: why the answer is NIL; None where it is an entity.
    """

    text: str
    entity_id: str | None
    score: float
    margin: float
    probability: float | None
    candidates: tuple[Found, ...]
    reason: str | None = None

    @property
    def name(self) -> str | None:
        """That of its entity, or of each of its entities, joined as their ids are."""
        return self._of_entities({found.entity_id: found.name for found in self.candidates})

    @property
    def matched(self) -> str | None:
        """As `name`, those names and aliases that the mention is most like."""
        return self._of_entities({found.entity_id: found.matched for found in self.candidates})

    def _of_entities(self, names: Mapping[str, str]) -> str | None:
        return None if self.entity_id is None else name_of(self.entity_id, names)

    def to_row(self) -> dict[str, Any]:
        """The answer as a JSON object; scores that are not finite are null."""
        row: dict[str, Any] = {"mention": self.text, "entity_id": self.entity_id}
        row |= {"name": self.name, "matched": self.matched}
        row |= {"score": finite(self.score), "margin": finite(self.margin)}
        row |= {"probability": self.probability, "reason": self.reason}
        row["candidates"] = [
            {
                "entity_id": found.entity_id,
                "name": found.name,
                "matched": found.matched,
                "score": found.score,
            }
            for found in self.candidates
        ]
        return row


def finite(value: float) -> float | None:
    """The value, or None where a file or JSON could not hold it."""
    return value if math.isfinite(value) else None


class Standardizer:
    """An index and the encoder that made it.

    Args:
        index: the entities to choose from.
        encode: texts -> [N, D] float32, as for the index.
        weight: of the lexical score beside the dense one, or what combines them.
        nil: when an answer is NIL; without it every mention that has a candidate gets an entity.
        top_k: candidates an answer.
        operating_point: of `nil`; by default `accuracy` where there is a calibration. `never` gives the first
            candidate however improbable.
        nil_share: the share of mentions without an entity among those that will be asked; by default
            `NIL_SHARE`. Probabilities and operating points follow it.
        abbreviations: whether mentions of documents are looked up by the long forms that these explain.
        composites: whether a mention is also read as a list, and split where each part of it is found with a
            higher score than the whole.
        reranker: what puts candidates in another order, for which `nil` was fitted.
        search: texts, their vectors [Q, D] and k -> the k best entities for each text, best first; by default
            those of the index by `weight`.

    Raises:
        InputError: an operating point or a share without a calibration, one outside [0, 1], or more
            candidates than are re-ranked.
    """

    forward_cost = COST_OF_A_SEARCH
    tokens_per_batch = TOKENS_PER_SEARCH
    whole = False

    def __init__(
        self,
        index: EntityIndex,
        encode: Encode,
        weight: Weight,
        nil: NilCalibration | EarlierNil | None = None,
        *,
        top_k: int = TOP_K,
        operating_point: NilChoice | None = None,
        nil_share: float | None = None,
        abbreviations: bool = False,
        composites: bool = False,
        reranker: Reranker | None = None,
        search: Callable[[Sequence[str], np.ndarray, int], list[list[Found]]] | None = None,
    ) -> None:
        self.index = index
        self.encode = encode
        self._search = search or partial(index.search, weight=weight)
        self.weight = weight
        self._nil = nil
        self.abbreviations = abbreviations
        self.composites = composites
        self.reranker = reranker
        self._choose(top_k, operating_point, nil_share)

    def adjusted(
        self, top_k: int, operating_point: NilChoice | None, nil_share: float | None
    ) -> Standardizer:
        """The same index and encoder, with other answers: arguments and errors are those of the class, but
        without a share of NIL that of this one stays."""
        found = copy(self)
        kept = self._nil_share if nil_share is None and self.calibrated else nil_share
        found._choose(top_k, operating_point, kept)
        return found

    def _choose(self, top_k: int, operating_point: NilChoice | None, nil_share: float | None) -> None:
        nil, reranker = self._nil, self.reranker
        self._top_k = top_k
        self._point = operating_point or ("never" if nil is None else "accuracy")
        self._nil_share = NIL_SHARE if nil_share is None else check_nil_share(nil_share)
        self._threshold: float | None = None
        if reranker is not None and top_k > reranker.candidates:
            what = f"asks for {top_k} candidates, and the checkpoint re-ranks {reranker.candidates}"
            raise InputError("top_k", what, "ask for fewer, or fit it anew with more `--candidates`")
        if nil is None and self._point != "never":
            raise _uncalibrated("operating_point", f"{self._point!r}")
        if nil is None and nil_share is not None:
            raise _uncalibrated("nil_share", f"{nil_share:g}")
        if nil is not None and self._point != "never":
            self._threshold = nil.threshold(self._point, self._nil_share)

    @cached_property
    def entity_of(self) -> Callable[[str], str | None]:
        """The entity of the index that an id of a mention means; None where it lacks one."""
        return entity_of_id(self.index.entities)

    @property
    def reads_sentences(self) -> bool:
        """Whether the sentence that a mention is in changes its answer."""
        return self.reranker is not None

    @property
    def calibrated(self) -> bool:
        """Whether it knows how probable its answers are."""
        return self._nil is not None

    @property
    def never_nil(self) -> bool:
        """Whether every mention that has a candidate gets an entity."""
        return self._threshold is None

    def prepare(self, item: Query | MentionString | str) -> list[Query]:
        """The mention in its `normal_form`, and parts that it may have; nothing where it can only be NIL."""
        text, sentence = _query_of(item)
        if unanswerable(text):
            return []
        whole = normal_form(text)
        texts = dict.fromkeys([whole, *(part for parts in self._readings(whole) for part in parts)])
        return [Query(one, sentence if self.reads_sentences else None) for one in texts]

    def length_of(self, window: Query) -> int:
        """About how many sub-words it has; `encode` counts them."""
        return 2 + len(window.text) // _CHARACTERS_PER_TOKEN

    def forward(self, windows: Sequence[Query]) -> list[list[Found]]:
        """The candidates of each mention, best first; equal mentions are encoded and searched once."""
        texts = list(dict.fromkeys(window.text for window in windows))
        # What speaks for a candidate needs those after it, whatever was asked for.
        count = max(self._top_k, CANDIDATES) if self.reranker is None else self.reranker.candidates
        of_text = dict(zip(texts, self._search(texts, self.encode(texts), count), strict=True))
        if self.reranker is None:
            return [of_text[window.text] for window in windows]
        distinct = list(dict.fromkeys(windows))
        found = self.reranker.rerank(distinct, [of_text[window.text] for window in distinct])
        of_window = dict(zip(distinct, found, strict=True))
        return [of_window[window] for window in windows]

    def finish(
        self, item: Query | MentionString | str, windows: Sequence[Query], scores: Sequence[list[Found]]
    ) -> Answer:
        """The first candidate, or NIL where it is too improbable."""
        text = _query_of(item).text
        if not windows:
            return self._without_candidates(text, unanswerable(text))
        found = {window.text: of for window, of in zip(windows, scores, strict=True)}
        first = windows[0].text
        whole = self._answer(text, found[first])
        splits = [[self._answer(part, found[part]) for part in parts] for parts in self._readings(first)]
        best = max(splits, key=self._weakest, default=[whole])
        # Equal but for rounding where both are names of the index: these stay whole.
        return self._together(text, best) if self._weakest(best) > self._like(whole) + _ROUNDING else whole

    def evaluate(self, predicted: Sequence[Answer], gold: Sequence[Any]) -> dict[str, Any]:
        """Linking metrics of `MentionString`s, `seen` those in the index; mistakes by category."""
        entities = self.index.entities
        right = entities.of_ids(dict.fromkeys(id_ for mention in gold for id_ in mention.entity_ids))
        names = {entity.entity_id: (entity.name, *entity.aliases) for entity in right}
        errors = categorize_answers(gold, predicted, names, telling_names(entities, gold))
        scores = score_linking(gold, predicted, telling_indexed(self.index, gold))
        return {**scores, "errors": summarize_answer_errors(errors)}

    def _readings(self, text: str) -> list[tuple[str, ...]]:
        """The ways to split a mention of which every part could be answered."""
        if not self.composites:
            return []
        return [parts for parts in readings(text) if not any(map(unanswerable, parts))]

    def _answer(self, text: str, found: Sequence[Found]) -> Answer:
        if not found:
            return self._without_candidates(text, "no candidate")
        score = found[0].score
        margin = score - found[1].score if len(found) > 1 else float("inf")
        entity_id, probability, reason = found[0].entity_id, None, None
        if self._nil is not None:
            given = evidence_of([found], self.weight, self.reranker is not None)
            probability = float(self._nil.probability(given, self._nil_share)[0])
            if self._threshold is not None and self._nil.log_odds(given)[0, 1] < self._threshold:
                entity_id, reason = None, f"below the threshold of {self._point}"
        return Answer(text, entity_id, score, margin, probability, tuple(found[: self._top_k]), reason)

    def _together(self, text: str, parts: Sequence[Answer]) -> Answer:
        """The answer to a composite mention, from those to its parts."""
        weakest = min(parts, key=_certainty)
        ids = list(dict.fromkeys(part.entity_id for part in parts if part.entity_id is not None))
        ranked = (found for of_rank in zip_longest(*(part.candidates for part in parts)) for found in of_rank)
        candidates: dict[str, Found] = {}
        for found in filter(None, ranked):
            candidates.setdefault(found.entity_id, found)
        return replace(
            weakest,
            text=text,
            entity_id=SEVERAL.join(ids) or None,
            candidates=tuple(candidates.values())[: max(self._top_k, len(parts))],
            reason=None if ids else weakest.reason,
        )

    def _like(self, answer: Answer) -> float:
        """How like its first candidate a string is: unlike log odds, comparable between strings."""
        return next(iter(likeness(answer.candidates[:1], self.weight)), -math.inf)

    def _weakest(self, parts: Sequence[Answer]) -> float:
        return min(map(self._like, parts))

    def _without_candidates(self, text: str, reason: str | None) -> Answer:
        probability = None if self._nil is None else 0.0
        return Answer(text, None, float("-inf"), float("inf"), probability, (), reason)


def _certainty(answer: Answer) -> tuple[float, float]:
    return 1.0 if answer.probability is None else answer.probability, answer.score


def _uncalibrated(where: str, asked: str) -> InputError:
    what = f"{asked} needs a calibration of NIL, and the checkpoint has none"
    return InputError(
        where, what, "train with `mentions.dev`, best with `mentions.negatives` too, or leave it out"
    )


def _query_of(item: Query | MentionString | str) -> Query:
    return Query(item) if isinstance(item, str) else Query(item.text, item.sentence)
