"""Scores as probabilities: fitted on documents that were set apart, kept with a checkpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rayner.data.schema import Document
from rayner.errors import CheckpointError, storage_error
from rayner.metrics.judged_mentions import JudgedMentions, judge_mentions
from rayner.metrics.score_calibration import ScoreCalibration, fit_scores
from rayner.tasks.predict import predict
from rayner.tasks.recognizer.predictor import Recognizer
from rayner.tasks.sharing import from_first, shares

FILE = "calibration.json"
BELOW = 4.0
"""How far below its threshold a mention may lie that counts: who lowers thresholds has such mentions, too."""

log = logging.getLogger(__name__)


def calibrate(recognizer: Recognizer, documents: Sequence[Document]) -> ScoreCalibration | None:
    """The calibration by the mentions that the recognizer finds; None, and the log says so, if it finds none.

    With lower thresholds it finds the same mentions above the usual ones: those furthest above are taken
    first. Each worker of a training reads its part of the documents.
    """
    lower = recognizer.shifted(-BELOW)
    found = shares(lambda part: _judged(lower, part), documents)
    return from_first(lambda: _fitted(found))


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
    try:
        return ScoreCalibration.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if failure := storage_error(str(path), "cannot be read", error):
            raise failure from error
        what = f"cannot be read ({type(error).__name__})"
        raise CheckpointError(str(path), what, "copy the whole checkpoint folder again") from None


def _judged(recognizer: Recognizer, documents: Sequence[Document]) -> JudgedMentions:
    return judge_mentions(documents, list(predict(recognizer, documents)), recognizer.names)


def _fitted(parts: Sequence[JudgedMentions]) -> ScoreCalibration | None:
    types, _, margins, right = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(types):
        log.warning("scores are not calibrated: no mention is found in the documents set apart for it")
        return None
    return fit_scores(types, margins, right)
