"""What a standardizer fits on held-out mentions: its lexical side's weight, and when an answer is NIL."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rayner.data.mention_strings import MentionString
from rayner.errors import CheckpointError
from rayner.metrics.nil import NilCalibration, fit_nil
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import Found
from rayner.tasks.standardizer.predictor import unanswerable

log = logging.getLogger(__name__)

FILE = "standardizer.json"
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
_CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class Fitted:
    """`weight` of the lexical score beside the dense one; `nil` None where there was nothing to fit it on."""

    weight: float = 0.5
    nil: NilCalibration | None = None

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint."""
        values = {"weight": self.weight, "nil": None if self.nil is None else self.nil.to_json()}
        (folder / FILE).write_text(json.dumps(values, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Fitted:
        """What `save` wrote.

        Raises:
            CheckpointError: the file is missing or another's.
        """
        path = folder / FILE
        try:
            values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            nil = values["nil"]
            return cls(float(values["weight"]), None if nil is None else NilCalibration.from_json(nil))
        except (OSError, ValueError, KeyError, TypeError) as error:
            what = f"cannot be read ({type(error).__name__})"
            raise CheckpointError(str(path), what, "copy the whole checkpoint folder again") from None


def fit(index: EntityIndex, mentions: Sequence[MentionString], vectors: np.ndarray) -> Fitted:
    """Choose the weight by the first candidates of mentions, then calibrate NIL.

    NIL is learned from the mentions with their entities in the index (the first candidate is right or wrong),
    from the same with their entities held out, and from mentions without an entity. Where that cannot be, the
    log says why.

    Args:
        vectors: [N, D] of the mentions.
    """
    kept = [i for i, mention in enumerate(mentions) if unanswerable(mention.text) is None]
    mentions, vectors = [mentions[i] for i in kept], vectors[kept]
    linked = [i for i, mention in enumerate(mentions) if mention.entity_ids]
    if not linked:
        if mentions:
            what = "NIL is not calibrated: all %d mentions to fit on are without an entity; %s"
            log.warning(what, len(mentions), "name mentions.dev, or a mentions.dev_fraction")
        return Fitted()
    texts, gold = [mentions[i].text for i in linked], [mentions[i].entity_ids for i in linked]
    found = {weight: index.search(texts, vectors[linked], _CANDIDATES, weight) for weight in WEIGHTS}
    weight = max(WEIGHTS, key=lambda w: (*_scores(found[w], gold), -w))
    without = index.search(texts, vectors[linked], 2, weight, exclude=gold)
    others = [i for i, mention in enumerate(mentions) if not mention.entity_ids]
    strange = index.search([mentions[i].text for i in others], vectors[others], 2, weight)
    right = [bool(of) and of[0].entity_id in ids for of, ids in zip(found[weight], gold, strict=True)]
    answers = [*found[weight], *without, *strange]
    right += [False] * (len(without) + len(strange))
    if not any(right):
        what = "NIL is not calibrated: no first candidate of %d held-out mentions is right"
        log.warning(what, len(linked))
        return Fitted(weight)
    score, margin = zip(*map(_score_and_margin, answers), strict=True)
    return Fitted(weight, fit_nil(score, margin, right))


def _scores(found: Sequence[Sequence[Found]], gold: Sequence[Sequence[str]]) -> tuple[float, float]:
    """How often the first candidate is right, and the mean reciprocal rank of the first right one."""
    ranks = np.array(
        [
            next((rank for rank, f in enumerate(of, 1) if f.entity_id in ids), np.inf)
            for of, ids in zip(found, gold, strict=True)
        ]
    )
    return float((ranks == 1).mean()), float((1 / ranks).mean())


def _score_and_margin(found: Sequence[Found]) -> tuple[float, float]:
    if not found:
        return -np.inf, np.inf
    return found[0].score, found[0].score - found[1].score if len(found) > 1 else np.inf
