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
from rayner.errors import CheckpointError, storage_error
from rayner.metrics.nil import NilCalibration
from rayner.retrieval.entity_index import EntityIndex
from rayner.retrieval.names import Found
from rayner.tasks.standardizer.calibration import calibrate
from rayner.tasks.standardizer.predictor import unanswerable

log = logging.getLogger(__name__)

FILE = "standardizer.json"
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
"""In units of the spread of dense scores to that of lexical ones."""
_CANDIDATES, _SPREAD = 5, 32
_EARLIER = "thresholds"
"""A key that calibrations had before there was a share of NIL."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """`weight` of the lexical score beside the dense one; `nil` None where there was nothing to fit it on."""

    weight: float = 0.5
    nil: NilCalibration | None = None

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint."""
        values = {"weight": self.weight, "nil": None if self.nil is None else self.nil.to_json()}
        (folder / FILE).write_text(json.dumps(values), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Fitted:
        """What `save` wrote. A calibration of an earlier version is left out, and the log says so.

        Raises:
            CheckpointError: the file is missing or another's.
            StorageError: it cannot be read now.
        """
        path = folder / FILE
        try:
            values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            nil, weight = values["nil"], float(values["weight"])
            if nil is not None and _EARLIER in nil:
                log.warning(
                    "%s: its NIL calibration is of an earlier version: nothing is NIL; train again", path
                )
                nil = None
            return cls(weight, None if nil is None else NilCalibration.from_json(nil))
        except (OSError, ValueError, KeyError, TypeError) as error:
            if failure := storage_error(str(path), "cannot be read", error):
                raise failure from error
            what = f"cannot be read ({type(error).__name__})"
            raise CheckpointError(str(path), what, "copy the whole checkpoint folder again") from None


def fit(index: EntityIndex, mentions: Sequence[MentionString], vectors: np.ndarray) -> Fitted:
    """Choose the weight by the first candidates of mentions, then calibrate NIL, as `calibrate` says.

    Args:
        vectors: [N, D] of the mentions.
    """
    kept = [i for i, mention in enumerate(mentions) if unanswerable(mention.text) is None]
    mentions, vectors = [mentions[i] for i in kept], vectors[kept]
    linked = [i for i, mention in enumerate(mentions) if mention.entity_ids]
    weight = Fitted().weight
    if linked:
        texts, gold = [mentions[i].text for i in linked], [mentions[i].entity_ids for i in linked]
        is_comparable = index.dense.distance == "cosine"
        scale = 1.0 if is_comparable else _scale(index.search(texts, vectors[linked], _SPREAD, 1))
        weights = [scale * weight for weight in WEIGHTS]
        found = {weight: index.search(texts, vectors[linked], _CANDIDATES, weight) for weight in weights}
        weight = max(weights, key=lambda w: (*_scores(found[w], gold), -w))
    return Fitted(weight, calibrate(index, mentions, vectors, weight))


def _scale(found: Sequence[Sequence[Found]]) -> float:
    """How many times as far apart a mention's candidates lie by their dense scores as by their lexical ones.

    Cosines of vectors and of n-grams are comparable as they are; distances have the unit of the vectors.
    """
    spreads = [(np.std([f.dense for f in of]), np.std([f.lexical for f in of])) for of in found if of]
    dense, lexical = np.median(spreads, axis=0) if spreads else (0.0, 0.0)
    return float(dense / lexical) if dense and lexical else 1.0


def _scores(found: Sequence[Sequence[Found]], gold: Sequence[Sequence[str]]) -> tuple[float, float]:
    """How often the first candidate is right, and the mean reciprocal rank of the first right one."""
    ranks = np.array(
        [
            next((rank for rank, f in enumerate(of, 1) if f.entity_id in ids), np.inf)
            for of, ids in zip(found, gold, strict=True)
        ]
    )
    return float((ranks == 1).mean()), float((1 / ranks).mean())
