"""The scores of mentions that are made of tags."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rayner.data.schema import Document
from rayner.tasks.tagger.decoding import TagGrammar, log_marginals
from rayner.tasks.tagger.tags import TagPredictor, Tags

LABELS = ["O", "B-X", "I-X"]


def found(tags: Tags, between: np.ndarray | None = None) -> Any:
    """The mention of `ab cd`, of which a predictor has these tags."""
    predictor: Any = object.__new__(TagPredictor)
    predictor._labels, predictor._between, predictor._task = LABELS, between, SimpleNamespace(prefixes="BI")
    predictor._grammar = None if tags.scores is None else TagGrammar(LABELS)
    window: Any = SimpleNamespace(
        subwords=SimpleNamespace(words=((0, 2), (3, 5))), words=np.arange(2), shown_around=np.full(2, np.inf)
    )
    (mention,) = predictor.finish(Document("d", "ab cd"), [window], [tags]).mentions
    return mention


def test_the_score_of_a_mention_is_the_mean_of_its_words() -> None:
    assert found(Tags(np.array([1, 2]), np.array([0.9, 0.5]))).score == pytest.approx(0.7)


def test_the_score_of_a_mention_under_a_crf_is_that_of_its_marginals() -> None:
    logs = np.log(np.array([[0.2, 0.7, 0.1], [0.3, 0.2, 0.5]]))
    between = np.array([[0.0, 0.0, -9.0], [-1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    of_words = np.exp(log_marginals(logs, between))
    tags = Tags(np.array([1, 2]), np.array([0.7, 0.5]), logs)
    assert found(tags, between).score == pytest.approx((of_words[0, 1] + of_words[1, 2]) / 2)
