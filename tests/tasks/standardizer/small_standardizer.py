"""A standardizer over the little knowledge base, and its calibration of NIL."""

from __future__ import annotations

from typing import Any

from rayner.metrics.nil import NIL as NIL_OUTCOME
from rayner.metrics.nil import RIGHT, NilCalibration, evidence, fit_nil
from rayner.tasks.predict import predict
from rayner.tasks.standardizer.predictor import Standardizer
from tests.tasks.standardizer.small_index import SmallIndex, encode

STRANGERS = ["toothbrush", "quinoa", "Zug", "yo", "ffff"]


def standardizer(index: SmallIndex | None = None, **options: Any) -> Standardizer:
    any_index: Any = index or SmallIndex()
    return Standardizer(any_index, encode, 0.0, **options)


def calibration() -> NilCalibration:
    mentions = ["Postgre", "mysql 5", "Andriod", "WebSphere", "NGINX", "Redhat Linux", *STRANGERS]
    answers = list(predict(standardizer(), mentions))
    scores = [[found.score for found in answer.candidates] for answer in answers]
    return fit_nil(evidence(scores), [RIGHT] * 6 + [NIL_OUTCOME] * 5)


NIL = calibration()
