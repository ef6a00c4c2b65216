"""Which of the candidates become contexts, where they should differ from one another.

Maximal marginal relevance (Carbonell and Goldstein 1998), and names first: a context helps a mention that
it speaks of, so that each name of the sentence gets one where a candidate has it (papers/001, section 7.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet


def diverse(
    relevance: Sequence[float],
    words: Sequence[AbstractSet[str]],
    names: AbstractSet[str],
    count: int,
    diversity: float = 0.5,
) -> list[int]:
    """Up to `count` places of N candidates, in the order in which they are chosen, one after another.

    While a candidate has a name that no chosen one has, one of those is chosen. Among them the value is
    (1 - diversity) relevance + diversity (share of the names that are new - overlap), where the overlap is
    the largest Jaccard index of its words and those of a chosen one.

    Args:
        relevance: [N] in [0, 1].
        words: [N] the different words of each candidate.
        names: those of the sentence.
        diversity: from 0, where relevance counts alone, to 1.
    """
    left, missing, chosen = list(range(len(relevance))), set(names), list[int]()
    overlap = [0.0] * len(relevance)
    while left and len(chosen) < count:
        new = {place: len(missing & words[place]) for place in left}

        def value(place: int, new: dict[int, int] = new) -> tuple[bool, float]:
            gain = new[place] / max(1, len(names)) - overlap[place]
            return new[place] > 0, (1 - diversity) * relevance[place] + diversity * gain

        best = max(left, key=value)
        chosen.append(best)
        left.remove(best)
        missing -= words[best]
        for place in left:
            union = len(words[place] | words[best])
            overlap[place] = max(overlap[place], len(words[place] & words[best]) / max(1, union))
    return chosen
