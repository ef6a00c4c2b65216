"""Scores of a ranker."""

from __future__ import annotations

from rayner.metrics.ranking import score_relevance


def test_a_score_at_the_threshold_is_not_relevant() -> None:
    assert score_relevance([False, True], [0.5, 0.6])["precision"] == 1
