"""Mentions to learn from when an answer is NIL: unseen strings, whose own entity is there or taken out."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rayner.counted import counted
from rayner.data.mention_strings import MentionString, fold
from rayner.metrics.linking import seen_among
from rayner.metrics.nil import NIL, RIGHT, WRONG, NilCalibration, evidence, fit_nil
from rayner.retrieval.combiner import Weight, likeness
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import Found
from rayner.tasks.standardizer.telling_names import telling_indexed

log = logging.getLogger(__name__)

OWN_SHARE = 0.5
"""Of the weight of all that is NIL, what mentions have whose own entity was taken out; near misses and
strangers, where there are some, have the rest in equal parts."""


class Search(Protocol):
    """From texts and their vectors [Q, D] to the best entities of each, none of those that are excluded."""

    def __call__(
        self, texts: Sequence[str], vectors: np.ndarray, exclude: Sequence[Sequence[str]] | None = None
    ) -> list[list[Found]]: ...


def calibrate(
    index: EntityIndex,
    mentions: Sequence[MentionString],
    vectors: np.ndarray,
    search: Search,
    weight: Weight,
    reranked: bool = False,
) -> NilCalibration | None:
    """Fit on the mentions that no name of the index equals, or on all if there are none.

    Each is asked with its entity in the index, where the first candidate is right or wrong, and with it taken
    out, where it can only be NIL.

    NIL are, too, mentions without an entity (strangers), and near misses: names that came first for a mention
    and were wrong, asked with their entity taken out. None where that cannot be; the log says why.

    Args:
        vectors: [N, D] of the mentions.
        search: of the index, by what was fitted without the mention that is asked.
        weight: by which it will be asked.
        reranked: whether `search` gives what a re-ranker says of candidates, which is evidence too.
    """
    linked = np.array([bool(mention.entity_ids) for mention in mentions], bool)
    unseen = linked & ~seen_among(mentions, telling_indexed(index, mentions))
    if reason := _impossible(index, linked):
        log.warning("NIL is not calibrated: %s", reason)
        return None
    if not unseen.any():
        what = "NIL is calibrated on names of the index, since it has those of all %s to fit on: %s"
        log.warning(
            what,
            counted(int(linked.sum()), "mention"),
            "other strings will seem too improbable; name others as mentions.dev",
        )
        unseen = linked
    texts, gold = _columns(mentions, unseen)
    strangers, _ = _columns(mentions, ~linked)
    found = search(texts, vectors[unseen])
    right = [bool(of) and of[0].entity_id in ids for of, ids in zip(found, gold, strict=True)]
    if not any(right):
        what = "NIL is not calibrated: no first candidate of %s is right"
        log.warning(what, counted(len(texts), "held-out mention"))
        return None
    own = search(texts, vectors[unseen], gold)
    near = _near_misses(index, found, gold, search)
    others = [of for of in (near, search(strangers, vectors[~linked])) if of]
    shares = [1 - OWN_SHARE * bool(others), *[OWN_SHARE / max(len(others), 1)] * len(others)]
    # A mention and itself without its entity are no two witnesses: they are of one group.
    answers, groups = list(found), list(range(len(found)))
    outcome, weights = [RIGHT if is_right else WRONG for is_right in right], [1.0] * len(right)
    for of, share in zip((own, *others), shares, strict=True):
        begin = 0 if of is own else len(answers)
        groups += range(begin, begin + len(of))
        answers += of
        outcome += [NIL] * len(of)
        weights += [share / len(of)] * len(of)
    return fit_nil(evidence_of(answers, weight, reranked), outcome, weights, groups)


def evidence_of(found: Sequence[Sequence[Found]], weight: Weight, reranked: bool = False) -> np.ndarray:
    """What speaks for the first candidates, by which NIL is judged: [N, 3], as `evidence`, of how like the
    candidates are; with a re-ranker [N, 6], the same of what that says of them."""
    given = evidence([likeness(of, weight) for of in found])
    if not reranked:
        return given
    ranker = [[math.nan if one.ranker is None else one.ranker for one in of] for of in found]
    return np.concatenate([given, evidence(ranker)], 1)


def _impossible(index: EntityIndex, linked: np.ndarray) -> str | None:
    if not len(linked):
        return "there are no mentions to fit on; name mentions.dev, or a mentions.dev_fraction"
    if not linked.any():
        what = f"none with an entity among {counted(len(linked), 'mention')} to fit on"
        return f"{what}; name mentions.dev, or a mentions.dev_fraction"
    if len(index.entities) < 2:
        return "the index has one entity, and without it nothing is left to be wrong; add others"
    return None


def _columns(mentions: Sequence[MentionString], kept: np.ndarray) -> tuple[list[str], list[tuple[str, ...]]]:
    chosen = [mention for mention, keep in zip(mentions, kept, strict=True) if keep]
    return [mention.text for mention in chosen], [mention.entity_ids for mention in chosen]


def _near_misses(
    index: EntityIndex, found: Sequence[Sequence[Found]], gold: Sequence[Sequence[str]], search: Search
) -> list[list[Found]]:
    """What is found for the first wrong names of mentions without their entities."""
    first = (
        next((f for f in of if f.entity_id not in ids), None) for of, ids in zip(found, gold, strict=True)
    )
    owners = {f.matched: f.entity_id for f in first if f is not None}
    if not owners:
        return []
    names, own = list(owners), [[entity_id] for entity_id in owners.values()]
    vectors = np.stack([_vector(index, entity_id, name) for name, entity_id in owners.items()])
    without = search(names, vectors, own)
    # An entity that has the very name is no miss.
    return [
        of for name, of in zip(names, without, strict=True) if not of or fold(of[0].matched) != fold(name)
    ]


def _vector(index: EntityIndex, entity_id: str, name: str) -> np.ndarray:
    """Of a name of an entity, as the index has it."""
    number = index.entities.numbers[entity_id]
    begin, end = np.searchsorted(index.names.entity, (number, number + 1))
    row = next(row for row in range(begin, end) if index.names.text(row) == name)
    return index.dense.vectors[row]
