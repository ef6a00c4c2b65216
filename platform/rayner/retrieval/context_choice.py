"""Which candidate contexts are read with a sentence, by their scores; candidates are numbered from 0.

Choices end at a number of contexts, at a budget of tokens, or at both. A candidate that the rest of the
budget cannot hold is left out, and the next is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Room:
    """What a sentence has room for: at most `count` contexts, of at most `tokens` tokens together.

    `minimum` is a score that a context must exceed.
    """

    count: float = inf
    tokens: float = inf
    minimum: float = -inf


def best(scores: Sequence[float], lengths: Sequence[int], room: Room) -> list[int]:
    """The candidates with the highest scores, best first; of equal scores the first.

    Args:
        lengths: tokens that each candidate takes.
    """
    return diverse(scores, lengths, [frozenset()] * len(scores), room, relevance=1)


def diverse(
    scores: Sequence[float],
    lengths: Sequence[int],
    tokens: Sequence[AbstractSet[str]],
    room: Room,
    mentions: Sequence[AbstractSet[str]] = (),
    relevance: float = 0.7,
) -> list[int]:
    """Candidates that are relevant and differ, in the order in which they were chosen.

    Maximal marginal relevance (Carbonell and Goldstein 1998): next comes the candidate with the largest
    relevance * score - (1 - relevance) * likeness, where likeness is the largest Jaccard index of its tokens
    and those of a candidate chosen before. As long as some candidate has a mention that none has so far, only
    those with the most such mentions are considered, so that every mention of the sentence finds a context
    where there is one (the limitation of Amalvy et al. 2023, section 7.1).

    Args:
        scores: from 0 to 1, as the likeness is.
        lengths: tokens that each candidate takes.
        tokens: what each candidate says.
        mentions: the tokens of each string that may be a mention; a candidate has it where it has them all.
        relevance: from 0 to 1; 1 makes likeness not count.
    """
    left = {i for i, score in enumerate(scores) if score > room.minimum}
    open_mentions = [mention for mention in mentions if mention]
    likeness = [0.0] * len(scores)
    chosen: list[int] = []
    space = room.tokens
    while len(chosen) < room.count:
        left = {i for i in left if lengths[i] <= space}
        if not left:
            break
        helps = {i: sum(mention <= tokens[i] for mention in open_mentions) for i in left}
        most = max(helps.values())
        nearby = [i for i in left if helps[i] == most]
        gains = {i: relevance * scores[i] - (1 - relevance) * likeness[i] for i in sorted(nearby)}
        pick = max(gains, key=lambda i: gains[i])
        chosen.append(pick)
        left.remove(pick)
        space -= lengths[pick]
        open_mentions = [mention for mention in open_mentions if not mention <= tokens[pick]]
        if relevance < 1:
            for i in left:
                likeness[i] = max(likeness[i], jaccard(tokens[i], tokens[pick]))
    return chosen


def around(sentence: int, contexts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Contexts by their places in the document: those before the sentence, and those after it, in order."""
    places = sorted({place for place in contexts if place != sentence})
    return [p for p in places if p < sentence], [p for p in places if p > sentence]


def jaccard(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """The share of common elements among all; 0 where both are empty."""
    union = len(one | other)
    return len(one & other) / union if union else 0.0
