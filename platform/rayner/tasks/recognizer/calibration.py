"""Scores as probabilities, and thresholds: fitted on documents set apart, kept with a checkpoint."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rayner.data.schema import Document
from rayner.metrics.counts import annotated_keys
from rayner.metrics.judged_mentions import JudgedMentions, judge_mentions
from rayner.metrics.score_calibration import ScoreCalibration, fit_scores
from rayner.metrics.thresholds import candidates_from_columns, cautious_shifts
from rayner.tasks.checkpoint_files import reading_part
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.sharing import from_first, shares

FILE = "calibration.json"
BELOW = 4.0
"""How far below its threshold a mention may lie that counts: who lowers thresholds has such mentions, too."""

log = logging.getLogger(__name__)


def calibrate(
    recognizer: Recognizer, documents: Sequence[Document], moving: Sequence[str] = ()
) -> ScoreCalibration | None:
    """The calibration by the mentions that the recognizer finds; None, and the log says so, if it finds none.

    With lower thresholds it finds the same mentions above the usual ones: those furthest above are taken
    first. Each worker of a training reads its part of the documents.

    Args:
        moving: types whose thresholds are moved before.
    """
    moved = _moved(recognizer, documents, moving) if moving else {}
    lower = recognizer.with_thresholds(moved).shifted(-BELOW)
    found = shares(lambda part: _judged(lower, part), documents)
    return from_first(lambda: _fitted(found, moved))


def _moved(recognizer: Recognizer, documents: Sequence[Document], names: Sequence[str]) -> dict[str, float]:
    """What the thresholds of the types are moved by: only what is found below them can tell."""
    lower = recognizer.shifted(-BELOW)
    found = shares(lambda part: _judged(lower, part), documents)
    wanted = frozenset(names)
    support = Counter(key[2] for d in documents for key in annotated_keys(d, d, wanted)[0])

    def shifts() -> dict[str, float]:
        types, _, margins, right = (np.concatenate(column) for column in zip(*found, strict=True))
        own = np.isin(types, names)
        candidates = candidates_from_columns(types[own].astype(str), margins[own], right[own], support)
        return cautious_shifts(candidates, -BELOW)

    return from_first(shifts)


def save(calibration: ScoreCalibration | None, folder: Path) -> None:
    """Write it into a checkpoint; nothing without one."""
    if calibration is not None:
        (folder / FILE).write_text(json.dumps(calibration.to_json(), indent=1), encoding="utf-8")


def load(folder: Path) -> ScoreCalibration | None:
    """What `save` wrote; None where it wrote nothing, as in checkpoints of earlier versions.

    Raises:
        CheckpointError: the file is no calibration.
        StorageError: it cannot be read now.
    """
    path = folder / FILE
    if not path.exists():
        return None
    with reading_part(path):
        return ScoreCalibration.from_json(json.loads(path.read_text(encoding="utf-8")))


def _judged(recognizer: Recognizer, documents: Sequence[Document]) -> JudgedMentions:
    return judge_mentions(documents, list(predict(recognizer, documents)), recognizer.names)


def _fitted(parts: Sequence[JudgedMentions], moved: Mapping[str, float]) -> ScoreCalibration | None:
    types, _, margins, right = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(types):
        log.warning("scores are not calibrated: no mention is found in the documents set apart for it")
        return None
    return replace(fit_scores(types, margins, right), thresholds=moved)
